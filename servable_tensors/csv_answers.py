"""Arrays become CSV: one line a row, the outputs side by side in the order of their names."""

import csv
import io
from itertools import chain

from servable_tensors.errors import TensorError
from servable_tensors.json_answers import have_rows, texts
from servable_tensors.tensors import Array, Arrays


def as_csv(arrays: Arrays) -> bytes:
    """Rows of more than one dimension are laid out flat. Raises `TensorError`."""
    if not have_rows(arrays):
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise TensorError(f"the outputs have no rows in common ({shapes}): no lines of CSV")
    columns = [_cells(name, array) for name, array in arrays.items()]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerows(chain.from_iterable(row) for row in zip(*columns, strict=True))
    return file.getvalue().encode(errors="surrogateescape")


def _cells(name: str, array: Array) -> list[list[str]]:
    if array.dtype == object:
        flat = [one.decode(errors="surrogateescape") for one in array.ravel().tolist()]
    else:
        flat = texts(name, array)
    width = len(flat) // len(array) if len(array) else 0
    return [flat[row * width : (row + 1) * width] for row in range(len(array))]
