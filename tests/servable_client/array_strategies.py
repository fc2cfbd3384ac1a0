"""Arrays of every type that a tensor has, every rank, and every way to lie in memory."""

from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

# A busy machine is no failure; and there are many of these.
quick = settings(deadline=None, max_examples=60)
DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
SHAPES = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5)


@st.composite
def numbers(draw: Any, dtypes: list[str] = DTYPES) -> Any:
    """Also transposed, in steps, backwards, and in the other byte order."""
    array = draw(npst.arrays(np.dtype(draw(st.sampled_from(dtypes))), draw(SHAPES)))
    way = draw(st.sampled_from(["C", "F", "transposed", "steps", "backwards", "swapped"]))
    if way == "F":
        return np.asfortranarray(array) if array.ndim else array
    if way == "transposed":
        return array.T
    if way == "steps" and array.ndim:
        return np.repeat(array, 2, axis=0)[::2]
    if way == "backwards" and array.ndim:
        return array[::-1]
    if way == "swapped":
        return array.astype(array.dtype.newbyteorder(">"))
    return array


@st.composite
def strings(draw: Any, ending: bytes = b"") -> Any:
    shape = draw(SHAPES)
    array = np.empty(int(np.prod(shape)), object)
    array[:] = [
        one + ending
        for one in draw(st.lists(st.binary(max_size=9), min_size=array.size, max_size=array.size))
    ]
    return array.reshape(shape)
