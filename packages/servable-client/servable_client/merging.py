"""Merging of the answers of a batch's parts."""

from collections.abc import Sequence

import numpy as np

from servable_client.arrays import Array, Arrays
from servable_client.errors import BadAnswerError

_EXACT_IN_FLOAT64 = 2**53


def merged(
    answers: Sequence[Arrays], rows: Sequence[int], constant: frozenset[str] | None = None
) -> dict[str, Array]:
    """Return the merged outputs. `rows`: the number of rows of each part. Raises `BadAnswerError`.

    An output with as many rows as its part, in every part, is joined; any other, as a model's
    version, must be the same in every part. Parts that all have one length do not tell a
    constant of that length from rows: then the values do, unless they are the same in every
    part, or `constant` does, which names the outputs that are one for all parts.
    """
    if len(answers) == 1:
        return dict(answers[0])
    names = answers[0].keys()
    for number, answer in enumerate(answers):
        if answer.keys() != names:
            raise BadAnswerError(
                f"part {number + 1} has the outputs {', '.join(answer)}, "
                f"the first has {', '.join(names)}"
            )
    if constant is not None and (missing := constant - names):
        raise BadAnswerError(
            f"Split(constant=…) names {', '.join(sorted(missing))}; "
            f"the model's outputs are {', '.join(names)}"
        )
    return {
        name: _joined(name, [answer[name] for answer in answers], rows, constant) for name in names
    }


def _joined(
    name: str, pieces: Sequence[Array], rows: Sequence[int], constant: frozenset[str] | None
) -> Array:
    is_constant = constant is not None and name in constant
    by_length = all(piece.ndim and len(piece) == n for piece, n in zip(pieces, rows, strict=True))
    if by_length and not is_constant:
        if constant is None and len(set(rows)) == 1 and _same(pieces):
            raise BadAnswerError(
                f"{name}: every part has {rows[0]} rows and gives the same {rows[0]} values: they may "
                f"be the rows' or one for all. Say which outputs are one for all parts: "
                f'Split(rows={rows[0]}, constant=frozenset({{"{name}"}})), or constant=frozenset() '
                "for none"
            )
        return _concatenated(name, pieces)
    if _same(pieces):
        return pieces[0]
    raise BadAnswerError(
        f"{name}: has shape {list(pieces[0].shape)} for {rows[0]} rows, and is not the same in every "
        "part: what is one for the whole batch cannot be put together of parts; leave split out"
    )


def _same(pieces: Sequence[Array]) -> bool:
    first = pieces[0]
    numbers = first.dtype.kind in "fc"
    return all(
        first.dtype == piece.dtype and np.array_equal(first, piece, equal_nan=numbers)
        for piece in pieces[1:]
    )


def _concatenated(name: str, pieces: Sequence[Array]) -> Array:
    shapes = {piece.shape[1:] for piece in pieces}
    if len(shapes) > 1:
        raise BadAnswerError(f"{name}: parts give rows of different shapes, {sorted(shapes)}")
    kinds = {piece.dtype.kind for piece in pieces}
    if len(kinds) == 1:
        return np.concatenate(pieces)
    listed = ", ".join(sorted({str(piece.dtype) for piece in pieces}))
    if not kinds <= {"i", "u", "f"}:
        raise BadAnswerError(f"{name}: parts give different types, {listed}")
    # JSON carries no types: [1] is int64, [1.5] float64 and [2**63] uint64, of one output.
    least = min(int(piece.min(initial=0)) for piece in pieces if piece.dtype.kind != "f")
    most = max(int(piece.max(initial=0)) for piece in pieces if piece.dtype.kind != "f")
    dtype = np.float64 if "f" in kinds else np.uint64
    if least < (-_EXACT_IN_FLOAT64 if "f" in kinds else 0) or (
        "f" in kinds and most > _EXACT_IN_FLOAT64
    ):
        raise BadAnswerError(
            f"{name}: parts give {listed}, and {dtype.__name__} changes some values"
        )
    return np.concatenate([piece.astype(dtype) for piece in pieces])
