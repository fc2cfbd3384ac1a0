"""What callers give becomes named arrays; what comes back is given to them as such."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from servable_client.errors import BadInput

Array = npt.NDArray[Any]
Arrays = Mapping[str, Array]

UNNAMED = ""
"""The name of an input that was given without one: the model's only input."""
UNNAMED_OUTPUT = "output"
"""The name of an output where the answer's form has none: .npy, and JSON of a single output."""


class Outputs(dict[str, Array]):
    """A model's outputs by name. Numbers share the answer's memory and are read-only.

    `variant`: which one answered, None where there are no variants.
    """

    def __init__(self, arrays: Arrays, variant: str | None = None) -> None:
        super().__init__(arrays)
        self.variant = variant

    @property
    def only(self) -> Array:
        """The output of a model that has one. Raises `ValueError` for one that has more."""
        if len(self) != 1:
            raise ValueError(f"the model has {len(self)} outputs: {', '.join(self)}; name one")
        return next(iter(self.values()))


def as_arrays(inputs: Any, named: Mapping[str, Any]) -> dict[str, Array]:
    """One array of each input: of a mapping, of keywords, or of a single value without a name.

    Text becomes bytes in UTF-8, in an array of `object`, as TensorFlow's strings are.
    Raises `BadInput`.
    """
    given: dict[str, Any] = {}
    if isinstance(inputs, Mapping):
        given.update(inputs)
    elif inputs is not None:
        given[UNNAMED] = inputs
    if twice := given.keys() & named.keys():
        raise BadInput(f"{', '.join(sorted(twice))}: given twice; give each input once")
    given.update(named)
    if not given:
        raise BadInput("no inputs; give arrays by name, as predict(feat_ids=…, feat_vals=…)")
    if UNNAMED in given and len(given) > 1:
        raise BadInput("one input has no name and others have; name all of them")
    return {name: _array(name, value) for name, value in given.items()}


def _array(name: str, value: Any) -> Array:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BadInput(f"{name or 'the input'}: is no array: {error}") from None
    # S would drop zeros at a string's end, where NumPy made it of a list.
    if array.dtype.kind == "S" and not isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value, object)
    if array.dtype.kind not in "OSU":
        return array
    texts = np.empty(array.size, object)
    texts[:] = [_bytes(name, one) for one in array.ravel().tolist()]
    return texts.reshape(array.shape)


def _bytes(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise BadInput(
        f"{name or 'the input'}: holds a {type(value).__name__}; "
        "an array holds numbers, truth values or strings, evenly nested"
    )


def total_bytes(arrays: Iterable[Array]) -> int:
    """Of numbers what they take; of strings what is in them."""
    return sum(
        sum(map(len, one.ravel().tolist())) if one.dtype == object else one.nbytes for one in arrays
    )
