"""servable_tensors/tensors.py: the arrays that TensorFlow would read and write."""

import math
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from servable_tensors import wire
from servable_tensors.tensors import UnknownTypeError, find_type_number, to_array, to_proto

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
def test_an_array_comes_back_as_it_went(array: Any) -> None:
    assert same(to_array(to_proto(array)), array)


@given(arrays.arrays(">f4", SHAPES))
def test_the_other_byte_order_is_turned(array: Any) -> None:
    assert np.array_equal(to_array(to_proto(array)), array, equal_nan=True)


@given(arrays.arrays("float32", (3, 4)))
def test_an_array_laid_out_otherwise_comes_back_as_it_went(array: Any) -> None:
    assert same(to_array(to_proto(array.T)), array.T)


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_strings_come_back_as_they_went(texts: list[bytes]) -> None:
    array = np.empty(len(texts), object)
    array[:] = texts
    assert to_array(to_proto(array)).tolist() == texts


@pytest.mark.parametrize("name", [*NUMBERS, "bfloat16"])
def test_tensorflow_reads_what_we_write(name: str) -> None:
    for shape in [(), (3,), (0, 2), (2, 2)]:
        import tensorflow as tf

        array = np.resize(np.array([1, 0, 3]), shape).astype(name if name != "bfloat16" else "f4")
        message = to_proto(array, wire.DataType["DT_BFLOAT16"] if name == "bfloat16" else None)
        read = tf.make_ndarray(_theirs(message))
        assert (read.dtype.name, read.shape, read.astype("c16").tolist()) == (
            name,
            shape,
            array.astype("c16").tolist(),
        )


def _theirs(message: Any) -> Any:
    from tensorflow.core.framework import tensor_pb2

    return tensor_pb2.TensorProto.FromString(message.SerializeToString())


@pytest.mark.parametrize("name", [*NUMBERS, "bfloat16"])
def test_we_read_the_values_that_tensorflow_writes_one_by_one(name: str) -> None:
    import tensorflow as tf

    written = [True, False, True] if name == "bool" else [1, 0, 3]
    message = tf.make_tensor_proto(written, dtype=name)
    ours = wire.TensorProto.FromString(_one_by_one(message).SerializeToString())
    assert to_array(ours).astype("c16").tolist() == written


def _one_by_one(message: Any) -> Any:
    """The same tensor with its values in the field of its type."""
    import tensorflow as tf
    from tensorflow.core.framework import tensor_pb2
    from tensorflow.python.framework import tensor_util

    dtype = tf.as_dtype(message.dtype)
    append = tensor_util.GetNumpyAppendFn(np.dtype(dtype.as_numpy_dtype))
    one = tensor_pb2.TensorProto(dtype=message.dtype, tensor_shape=message.tensor_shape)
    append(one, tf.make_ndarray(message).ravel())
    assert not one.tensor_content
    return one


@pytest.mark.parametrize("name", ["qint8", "quint8", "qint16", "quint16", "qint32"])
def test_quantized_values_are_read_as_the_integers_they_are(name: str) -> None:
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


@pytest.mark.parametrize("largest", [3.4028235e38, -3.4e38])
def test_a_float32_that_bfloat16_would_make_infinite_is_refused(largest: float) -> None:
    with pytest.raises(UnknownTypeError, match="e\\+38 exceeds bfloat16's range"):
        to_proto(np.array([1, largest], np.float32), wire.DataType["DT_BFLOAT16"])


@pytest.mark.parametrize(
    ("dtype", "values", "words"),
    [
        ("DT_HALF", {"half_val": [-1]}, "-1 in half_val is out of range for float16"),
        ("DT_HALF", {"half_val": [1 << 16]}, "65536 in half_val is out of range for float16"),
        ("DT_UINT8", {"int_val": [300]}, "300 in int_val is out of range for uint8"),
        ("DT_INT16", {"int_val": [-40000]}, "-40000 in int_val is out of range for int16"),
        ("DT_COMPLEX64", {"scomplex_val": [1.0]}, "1 parts of complex numbers"),
    ],
)
def test_a_value_that_its_type_does_not_hold_is_no_tensor(
    dtype: str, values: dict[str, Any], words: str
) -> None:
    with pytest.raises(UnknownTypeError, match=words):
        to_array(wire.TensorProto(dtype=wire.DataType[dtype], **values))


def test_one_value_stands_for_all_and_none_for_zeros() -> None:
    message = wire.TensorProto(dtype=1, float_val=[1.5])
    message.tensor_shape.dim.add(size=3)
    assert to_array(message).tolist() == [1.5, 1.5, 1.5]

    message = wire.TensorProto(dtype=3)
    message.tensor_shape.dim.add(size=2)
    assert to_array(message).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ({"dtype": 20}, "resource isn't a type that an array can hold"),
        ({"dtype": 99}, "dtype 99 isn't a type"),
        ({"dtype": 1, "tensor_shape": {"dim": [{"size": -1}]}}, "not fully known"),
        ({"dtype": 1, "tensor_shape": {"unknown_rank": True}}, "not fully known"),
        ({"dtype": 1, "tensor_content": b"123"}, "3 bytes for 1 elements of 4"),
    ],
)
def test_what_is_no_tensor_says_why(message: dict[str, Any], words: str) -> None:
    with pytest.raises(UnknownTypeError, match=words):
        to_array(wire.TensorProto(**message))


@pytest.mark.parametrize("array", [np.array(["2020"], "M8[Y]"), np.zeros(1, "V3")])
def test_a_type_that_tensorflow_lacks_is_refused(array: Any) -> None:
    with pytest.raises(UnknownTypeError, match="isn't a TensorFlow type"):
        find_type_number(array.dtype)


def test_four_megabytes_are_copied_and_not_counted_out() -> None:
    array = np.zeros(1_000_000, np.float32)
    message = to_proto(array)
    assert (len(message.tensor_content), math.prod(array.shape)) == (4_000_000, 1_000_000)
