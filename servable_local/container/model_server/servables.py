"""The loaded versions of every model, and how a call finds the one it means."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy.typing as npt

from servable_local.container.answer import HttpError
from servable_local.container.trouble import Trouble

Array = npt.NDArray[Any]


class Signature(Protocol):
    """What runtime.py loads."""

    definition: Any
    method: str
    inputs: dict[str, str]

    def compute(self, arrays: Mapping[str, Array]) -> dict[str, Array]: ...


class Servable(Protocol):
    signatures: dict[str, Any]


class Servables:
    """`max_batch_rows`: the largest request while batching is on, None while it is off."""

    def __init__(
        self,
        models: Mapping[str, Mapping[int, Servable]],
        *,
        trouble: Trouble,
        max_batch_rows: int | None = None,
    ) -> None:
        self._models = models
        self._trouble = trouble
        self._max_batch_rows = max_batch_rows

    def versions(self, model: str) -> list[int]:
        """Loaded versions of `model`, newest first; none for a model that is not there."""
        return sorted(self._models.get(model, {}), reverse=True)

    def find(self, model: str, version: int | None) -> tuple[int, Servable]:
        """The version asked for, else the newest. Raises `HttpError` (404)."""
        versions = self._models.get(model, {})
        if version is None and versions:
            newest = max(versions)
            return newest, versions[newest]
        if version is not None and version in versions:
            return version, versions[version]
        wanted = f"Latest({model})" if version is None else f"Specific({model}, {version})"
        raise HttpError(404, f"Servable not found for request: {wanted}")

    def compute(self, signature: Signature, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Raises `HttpError`."""
        self._trouble.strike()
        if self._max_batch_rows is not None:
            _check_batch(arrays, self._max_batch_rows)
        return signature.compute(arrays)


def _check_batch(arrays: Mapping[str, Array], max_rows: int) -> None:
    # The checks and sentences of TensorFlow Serving's batching session.
    if any(array.ndim == 0 for array in arrays.values()):
        raise HttpError(
            400, "Batching session Run() input tensors must have at least one dimension."
        )
    sizes = {len(array) for array in arrays.values()}
    if len(sizes) > 1:
        raise HttpError(
            400, "Batching session Run() input tensors must have equal 0-dimension size."
        )
    for rows in sizes:
        if rows > max_rows:
            raise HttpError(
                400, f"Task size {rows} is larger than maximum input batch size {max_rows}"
            )
