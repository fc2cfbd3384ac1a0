"""The answers of a batch's parts become the answer of the batch."""

from collections.abc import Sequence

import numpy as np

from servable_client.arrays import Array, Arrays
from servable_client.errors import BadAnswer


def merged(answers: Sequence[Arrays], rows: Sequence[int]) -> dict[str, Array]:
    """Outputs joined in the parts' order; `rows`, of each part. Raises `BadAnswer`.

    An output without rows, as a model's version, must be the same in every part.
    """
    if len(answers) == 1:
        return dict(answers[0])
    names = answers[0].keys()
    for number, answer in enumerate(answers):
        if answer.keys() != names:
            raise BadAnswer(
                f"part {number + 1} has the outputs {', '.join(answer)}, "
                f"the first has {', '.join(names)}"
            )
    return {name: _joined(name, [answer[name] for answer in answers], rows) for name in names}


def _joined(name: str, pieces: Sequence[Array], rows: Sequence[int]) -> Array:
    if all(piece.ndim and len(piece) == n for piece, n in zip(pieces, rows, strict=True)):
        shapes = {piece.shape[1:] for piece in pieces}
        if len(shapes) > 1:
            raise BadAnswer(f"{name}: parts give rows of different shapes, {sorted(shapes)}")
        return np.concatenate(pieces)
    first = pieces[0]
    numbers = first.dtype.kind in "fc"
    if all(np.array_equal(first, piece, equal_nan=numbers) for piece in pieces[1:]):
        return first
    raise BadAnswer(
        f"{name}: has shape {list(first.shape)} for {rows[0]} rows: what is one for the whole batch "
        "cannot be put together of parts; leave split out"
    )
