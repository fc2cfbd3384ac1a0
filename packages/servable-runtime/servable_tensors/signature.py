"""Inputs and outputs of a signature, and the check that arrays fit them."""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from servable_tensors import TensorError, format_shape, is_shape_allowed, wire
from servable_tensors.tensors import BFLOAT16, Array, UnknownTypeError, find_type_number

# What a plain array of this type may be sent as, besides its own type.
_ALSO_HOLDS = {1: {BFLOAT16}, 3: {13}, 4: {12}, 5: {15}, 6: {11}, 17: {16}}


_MOST_PROBLEMS = 10  # in one message
# Convolutions and what goes with them take images, volumes or series of rows.
_LEAST_RANK = 3


class TensorDescription(NamedTuple):
    """The type and shape of an input, as its array has them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class TensorSpec:
    """The spec of an input or output. A size of None is any; a shape of None is any rank."""

    dtype: int
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        return f"{wire.find_dtype_name(self.dtype)} {format_shape(self.shape)}"


@dataclass(frozen=True)
class Signature:
    """A signature of a model, with its inputs and outputs."""

    name: str
    inputs: Mapping[str, TensorSpec]
    outputs: Mapping[str, TensorSpec]

    def find_only_input(self) -> str:
        """Return the name of the only input, for bodies that name none. Raises `TensorError`."""
        if len(self.inputs) != 1:
            raise TensorError(
                f"the body names no inputs and the signature takes {self.format_inputs()}; "
                "send them by name (application/x-npz, or JSON with names)"
            )
        return next(iter(self.inputs))

    def check(self, arrays: Mapping[str, Array | TensorDescription]) -> None:
        """Raise `TensorError` for inputs that are missing, unknown or do not fit."""
        problems = self._find_name_problems(arrays)
        for name, array in arrays.items():
            spec = self.inputs.get(name)
            if spec and (problem := _explain_misfit(array.dtype, array.shape, spec)):
                problems.append(f"{name}: {problem}")
        self.raise_problems(problems)

    @functools.cached_property
    def ranks(self) -> Mapping[str, int]:
        """Return the ranks of inputs with three or more dimensions; others make TensorFlow abort."""
        ranks = {name: len(spec.shape or ()) for name, spec in self.inputs.items()}
        return {name: rank for name, rank in ranks.items() if rank >= _LEAST_RANK}

    def check_ranks(self, ranks: Mapping[str, int]) -> None:
        """Raise `TensorError` for inputs whose rank is not that of `self.ranks`."""
        self.raise_problems(
            [
                f"{name}: got {ranks[name]} dimensions; the signature wants {self.inputs[name]}"
                for name, rank in self.ranks.items()
                if ranks.get(name, rank) != rank
            ]
        )

    def check_names(self, names: Collection[str]) -> None:
        """Check the inputs' names as `check` does, before there are arrays. Raises `TensorError`."""
        self.raise_problems(self._find_name_problems(names))

    def raise_problems(self, problems: Sequence[str]) -> None:
        """Raise `TensorError` with the first of the problems, if there are any."""
        if problems:
            more = len(problems) - _MOST_PROBLEMS
            shown = [*problems[:_MOST_PROBLEMS], *([f"and {more} more"] if more > 0 else [])]
            raise TensorError(f"{'; '.join(shown)}. The signature takes {self.format_inputs()}")

    def _find_name_problems(self, names: Collection[str]) -> list[str]:
        missing = [f"{name}: not given" for name in self.inputs if name not in names]
        unknown = [
            f"{name!r:.60}: given, and no input of the signature"
            for name in names
            if name not in self.inputs
        ]
        return missing + unknown

    def format_inputs(self) -> str:
        return ", ".join(f"{name} {spec}" for name, spec in self.inputs.items()) or "no input"


@functools.lru_cache(maxsize=256)
def _explain_misfit(dtype: np.dtype[Any], shape: tuple[int, ...], spec: TensorSpec) -> str | None:
    try:
        number = BFLOAT16 if dtype.str[1:] == "V2" else find_type_number(dtype)
    except UnknownTypeError as bad:
        return f"got {bad}"
    fits = number == spec.dtype or spec.dtype in _ALSO_HOLDS.get(number, ())
    if fits and is_shape_allowed(shape, spec.shape):
        return None
    return f"got {wire.find_dtype_name(number)} {format_shape(shape)}; the signature wants {spec}"


def read_signatures(response: Any) -> dict[str, Signature]:
    """Return the signatures in a wire.GetModelMetadataResponse, by name, sorted."""
    definitions = wire.SignatureDefMap.FromString(response.metadata["signature_def"].value)
    return {
        name: Signature(name, _read_specs(definition.inputs), _read_specs(definition.outputs))
        for name, definition in sorted(definitions.signature_def.items())
    }


def _read_specs(infos: Mapping[str, Any]) -> dict[str, TensorSpec]:
    specs = {}
    for name, info in sorted(infos.items()):
        sizes = (dim.size if dim.size >= 0 else None for dim in info.tensor_shape.dim)
        shape = None if info.tensor_shape.unknown_rank else tuple(sizes)
        specs[name] = TensorSpec(info.dtype, shape)
    return specs
