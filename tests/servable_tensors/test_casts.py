"""servable_tensors/tensors.py: no value becomes another value by a change of its type."""

import math
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from servable_tensors.tensors import InexactCastError, cast_exactly

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "float32", "float64"]
GIVEN = st.sampled_from([*INTEGERS, *FLOATS, "bool"]).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(max_dims=2, max_side=3))
)


@given(GIVEN, st.sampled_from([*INTEGERS, *FLOATS, "bool"]))
def test_a_cast_array_holds_what_the_array_held(array: Any, wanted: str) -> None:
    try:
        found = cast_exactly(array, np.dtype(wanted))
    except InexactCastError:
        assert array.dtype.kind in "iuf"
        return
    if found.dtype != wanted:
        assert found is array
        return
    for before, after in zip(array.ravel().tolist(), found.ravel().tolist(), strict=True):
        if isinstance(before, float):
            nearest = before if math.isnan(before) else np.array(before).astype(wanted).item()
            assert math.isinf(after) == math.isinf(before)
            assert after == nearest or math.isnan(before)
        else:
            assert int(after) == before  # exactly: integers of Python's


@pytest.mark.parametrize(
    ("values", "given_as", "wanted", "words"),
    [
        ([2**40 + 7], "int64", "int32", "holds 1099511627783, which int32 can't represent"),
        ([3000000000], "int64", "int32", "holds 3000000000, which int32"),
        ([2**64 - 1], "uint64", "int64", "holds 18446744073709551615, which int64"),
        ([0, -1], "int64", "uint8", "holds -1, which uint8"),
        ([1e300], "float64", "float32", "holds 1e\\+300, which float32"),
        ([70000.0], "float32", "float16", "holds 70000.0, which float16"),
        ([2**53 + 1], "int64", "float64", "holds 9007199254740993, which float64"),
        ([2**24 + 1], "int32", "float32", "holds 16777217, which float32"),
        ([2**63 - 1], "int64", "float32", "holds 9223372036854775807, which float32"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    values: list[Any], given_as: str, wanted: str, words: str
) -> None:
    with pytest.raises(InexactCastError, match=words):
        cast_exactly(np.array(values, given_as), np.dtype(wanted))


def test_floats_stay_floats_and_are_rounded_to_the_nearest() -> None:
    assert cast_exactly(np.array([1.0]), np.dtype("int32")).dtype == np.float64
    assert cast_exactly(np.array([0.1]), np.dtype("float32")) == np.float32(0.1)
    found = cast_exactly(np.array([np.inf, -np.inf, np.nan]), np.dtype("float16"))
    assert str(found.tolist()) == "[inf, -inf, nan]"
