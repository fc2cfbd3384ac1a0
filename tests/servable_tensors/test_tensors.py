"""servable_tensors/tensors.py: the arrays that TensorFlow would read and write, and exact casts."""

import math
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from servable_tensors import wire
from servable_tensors.tensors import (
    InexactCastError,
    UnknownTypeError,
    cast_exactly,
    find_type_number,
    to_array,
    to_proto,
)

NUMBERS = [
    "float16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "complex64", "complex128", "bool",
]  # fmt: skip
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def same(one: Any, other: Any) -> bool:
    """True if both have one type and shape, and are equal bit by bit."""
    return bool(
        one.dtype == other.dtype
        and one.shape == other.shape
        and np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()
    )


@given(st.sampled_from(NUMBERS).flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)))
def test_an_array_comes_back_as_it_went_however_it_is_laid_out(array: Any) -> None:
    assert same(to_array(to_proto(array)), array)
    assert same(to_array(to_proto(array.T)), array.T)
    assert same(to_array(to_proto(array.astype(array.dtype.newbyteorder(">")))), array)


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_strings_come_back_as_they_went(texts: list[bytes]) -> None:
    array = np.empty(len(texts), object)
    array[:] = texts
    assert to_array(to_proto(array)).tolist() == texts


@pytest.mark.parametrize("name", [*NUMBERS, "bfloat16"])
def test_tensorflow_reads_what_we_write_and_we_read_what_it_writes_one_by_one(name: str) -> None:
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2

    for shape in [(), (3,), (0, 2), (2, 2)]:
        array = np.resize(np.array([1, 0, 3]), shape).astype(name if name != "bfloat16" else "f4")
        message = to_proto(array, wire.DataType["DT_BFLOAT16"] if name == "bfloat16" else None)
        read = tf.make_ndarray(tensor_pb2.TensorProto.FromString(message.SerializeToString()))
        found = read.dtype.name, read.shape, read.astype("c16").tolist()
        assert found == (name, shape, array.astype("c16").tolist())
    written = [True, False, True] if name == "bool" else [1, 0, 3]
    message = _one_by_one(tf.make_tensor_proto(written, dtype=name))
    ours = wire.TensorProto.FromString(message.SerializeToString())
    assert to_array(ours).astype("c16").tolist() == written


def _one_by_one(message: Any) -> Any:
    """The same tensor with its values in the field of its type."""
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2
    from tensorflow.python.framework import tensor_util

    append = tensor_util.GetNumpyAppendFn(np.dtype(tf.as_dtype(message.dtype).as_numpy_dtype))
    one = tensor_pb2.TensorProto(dtype=message.dtype, tensor_shape=message.tensor_shape)
    append(one, tf.make_ndarray(message).ravel())
    assert not one.tensor_content
    return one


def test_quantized_values_are_read_as_the_integers_they_are() -> None:
    for name in ["qint8", "quint8", "qint16", "quint16", "qint32"]:
        message = wire.TensorProto(dtype=wire.DataType[f"DT_{name.upper()}"], int_val=[7])
        assert (to_array(message).dtype.name, to_array(message).tolist()) == (name[1:], 7)


@given(arrays.arrays("float32", (20,)))
def test_bfloat16_is_rounded_as_tensorflow_rounds_and_never_to_infinity(array: Any) -> None:
    import tensorflow as tf

    theirs = tf.cast(tf.cast(array, tf.bfloat16), tf.float32).numpy()
    if np.any(np.isinf(theirs) & np.isfinite(array)):
        with pytest.raises(UnknownTypeError, match=r"^3\..*e\+38 exceeds bfloat16's range|^-3"):
            to_proto(array, wire.DataType["DT_BFLOAT16"])
        return
    ours = to_array(to_proto(array, wire.DataType["DT_BFLOAT16"]))
    assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize(("message", "words"), [
    ({"dtype": 19, "half_val": [-1]}, "-1 in half_val is out of range for float16"),
    ({"dtype": 19, "half_val": [1 << 16]}, "65536 in half_val is out of range for float16"),
    ({"dtype": 4, "int_val": [300]}, "300 in int_val is out of range for uint8"),
    ({"dtype": 5, "int_val": [-40000]}, "-40000 in int_val is out of range for int16"),
    ({"dtype": 8, "scomplex_val": [1.0]}, "1 parts of complex numbers"),
    ({"dtype": 20}, "resource isn't a type that an array can hold"),
    ({"dtype": 99}, "dtype 99 isn't a type"),
    ({"dtype": 1, "tensor_shape": {"dim": [{"size": -1}]}}, "not fully known"),
    ({"dtype": 1, "tensor_shape": {"unknown_rank": True}}, "not fully known"),
    ({"dtype": 1, "tensor_content": b"123"}, "3 bytes for 1 elements of 4"),
])  # fmt: skip
def test_what_is_no_tensor_says_why(message: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownTypeError, match=words):
        to_array(wire.TensorProto(**message))


def test_one_value_stands_for_all_and_none_for_zeros() -> None:
    message = wire.TensorProto(dtype=1, float_val=[1.5])
    message.tensor_shape.dim.add(size=3)
    assert to_array(message).tolist() == [1.5, 1.5, 1.5]
    message = wire.TensorProto(dtype=3)
    message.tensor_shape.dim.add(size=2)
    assert to_array(message).tolist() == [0, 0]


def test_a_type_that_tensorflow_lacks_and_a_number_beyond_bfloat16_are_refused() -> None:
    for array in [np.array(["2020"], "M8[Y]"), np.zeros(1, "V3")]:
        with pytest.raises(UnknownTypeError, match="isn't a TensorFlow type"):
            find_type_number(array.dtype)
    for largest in [3.4028235e38, -3.4e38]:
        with pytest.raises(UnknownTypeError, match="e\\+38 exceeds bfloat16's range"):
            to_proto(np.array([1, largest], np.float32), wire.DataType["DT_BFLOAT16"])


def test_four_megabytes_are_copied_and_not_counted_out() -> None:
    assert len(to_proto(np.zeros(1_000_000, np.float32)).tensor_content) == 4_000_000


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


@pytest.mark.parametrize(("values", "given_as", "wanted", "words"), [
    ([2**40 + 7], "int64", "int32", "holds 1099511627783, which int32 can't represent"),
    ([2**64 - 1], "uint64", "int64", "holds 18446744073709551615, which int64"),
    ([0, -1], "int64", "uint8", "holds -1, which uint8"),
    ([1e300], "float64", "float32", "holds 1e\\+300, which float32"),
    ([2**53 + 1], "int64", "float64", "holds 9007199254740993, which float64"),
    ([2**63 - 1], "int64", "float32", "holds 9223372036854775807, which float32"),
])  # fmt: skip
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
