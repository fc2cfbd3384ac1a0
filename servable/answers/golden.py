"""The known answer of a golden request, and where another answer differs from it.

Outputs are read and compared as a replay's are (outputs.py and differences.py),
and the first element of each that differs is named. The tolerance is the request's own.
"""

from collections.abc import Iterator
from pathlib import PurePath

import numpy as np

from infra.parameters.model import Golden
from infra.parameters.rollout import CONTENT_TYPES
from servable.answers.differences import Tolerance, by_row, compared
from servable.answers.outputs import WHOLE_BODY, AnswerOutputs, outputs_of
from servable_tensors.codecs import PROTOBUF
from servable_tensors.tensors import Array


def known_answer(golden: Golden) -> bytes | None:
    """Return the known answer of a golden request; None if it has not been recorded."""
    file = None if golden.answer is None else golden.answer.path
    return file.read_bytes() if file is not None and file.is_file() else None


def content_type_of(golden: Golden) -> str:
    """Return the content type of the known answer, by its file's ending; empty: its first bytes tell."""
    return "" if golden.answer is None else CONTENT_TYPES.get(PurePath(golden.answer).suffix, "")


def differing(
    wanted: bytes, actual: bytes, tolerance: float, content_type: str = ""
) -> Iterator[tuple[str, object, object]]:
    """Yield (path, wanted, actual) of the first difference of each output of two answers' bodies."""
    if wanted == actual:
        return
    before, after = (_outputs(body, content_type) for body in (wanted, actual))
    limit = Tolerance(tolerance, tolerance)
    for name in {**before.arrays, **after.arrays}:
        if name not in after.arrays or name not in before.arrays:
            there = ["an output" if name in side.arrays else "none" for side in (before, after)]
            yield name, there[0], there[1]
            continue
        array, other = before.arrays[name], after.arrays[name]
        rows, typed = before.rows_of(name), before.typed and after.typed
        exact = array.dtype.kind not in "fciu" or other.dtype.kind not in "fciu"
        found = compared(array, other, None if exact else limit, rows=rows, typed=typed, tops=())
        if found.problem:
            forms = [f"{side.dtype} {list(side.shape)}" for side in (array, other)]
            yield name, forms[0], forms[1]
        elif found.differing.any():
            yield _first(name, array, other, int(np.argmax(found.differing)), rows, limit)


def _outputs(body: bytes, content_type: str) -> AnswerOutputs:
    """Read an answer; of unknown type, as protobuf if its first bytes tell nothing."""
    outputs = outputs_of(body, content_type)
    if content_type or set(outputs.arrays) != {WHOLE_BODY}:
        return outputs
    message = outputs_of(body, PROTOBUF)
    return message if message.arrays else outputs


def _first(
    name: str, array: Array, other: Array, row: int, rows: int, limit: Tolerance
) -> tuple[str, object, object]:
    """The first element of a row that differs."""
    was, now = (by_row(side, rows)[row] for side in (array, other))
    for at in range(len(was)):
        sides = was[at : at + 1], now[at : at + 1]
        exact = was.dtype.kind not in "fciu"
        one = compared(*sides, None if exact else limit, rows=1, typed=False, tops=())
        if one.differing.any():
            break
    place = np.unravel_index(row * len(was) + at, array.shape) if array.shape else ()
    path = name + "".join(f"[{number}]" for number in place)
    return path, _shown(sides[0][0]), _shown(sides[1][0])


def _shown(value: object) -> object:
    plain = value.item() if isinstance(value, np.generic) else value
    return plain.decode(errors="replace") if isinstance(plain, bytes) else plain
