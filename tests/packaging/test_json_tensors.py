"""JSON values become the tensors that TensorFlow makes of them."""

from typing import Any

import pytest

from model_packaging.requests.json_requests import RequestValueError, build_tensor
from model_packaging.saved_model.reading import TensorInfo


def spec(dtype: str, *shape: int | None) -> TensorInfo:
    return TensorInfo(name="x:0", dtype=dtype, shape=shape)


def as_array(message: Any) -> Any:
    import tensorflow as tf
    from tensorflow.core.framework.tensor_pb2 import TensorProto

    return tf.make_ndarray(TensorProto.FromString(message.SerializeToString()))


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_numbers_arrive_in_every_type_and_bfloat16_as_tensorflow_rounds() -> None:
    for dtype in [*INTEGERS, "float16", "float32", "float64", "bfloat16"]:
        assert as_array(build_tensor([[1, 2], [3, 100]], spec(dtype, None, 2))).tolist() == [
            [1, 2],
            [3, 100],
        ]
    for number in [0.1, -1.00390625, 1.01171875, 3.4e38, -0.0, float("nan")]:
        import tensorflow as tf

        given = as_array(build_tensor(number, spec("bfloat16"))).tobytes()
        assert given == tf.constant(number, tf.float32).numpy().astype("bfloat16").tobytes()


def test_both_ends_of_int64_arrive_and_beyond_them_is_refused() -> None:
    for number in [-(2**63), 2**63 - 1]:
        assert as_array(build_tensor([number], spec("int64", None))).tolist() == [number]
    for number in [-(2**63) - 1, 2**63]:
        with pytest.raises(RequestValueError, match="is out of range for int64"):
            build_tensor([number], spec("int64", None))


def test_booleans_strings_numbers_and_lists_arrive_with_their_shape() -> None:
    assert as_array(build_tensor([True, False], spec("bool", 2))).tolist() == [True, False]
    given = build_tensor(["é", {"b64": "//4="}], spec("string", None))
    assert as_array(given).tolist() == ["é".encode(), b"\xff\xfe"]
    assert as_array(build_tensor(2, spec("int32"))).shape == ()
    unknown = TensorInfo(name="x:0", dtype="int32", shape=None)
    assert as_array(build_tensor([[[1]]], unknown)).shape == (1, 1, 1)
    assert as_array(build_tensor([], spec("int32", None))).shape == (0,)


def test_bad_base64_half_a_character_ragged_lists_and_complex_numbers_are_refused() -> None:
    for bad in ["?", "é"]:
        with pytest.raises(RequestValueError, match='contains invalid base64 in "b64"'):
            build_tensor([{"b64": bad}], spec("string", None))
    with pytest.raises(RequestValueError, match="an unpaired surrogate; strings must be UTF-8"):
        build_tensor(["\ud800"], spec("string", None))
    with pytest.raises(RequestValueError, match="is complex64, which JSON can't represent"):
        build_tensor([1], spec("complex64", None))
    for value in [[1, [2]], [[1], 2], [[1], [2, 3]]]:
        unknown = TensorInfo(name="x:0", dtype="int32", shape=None)
        with pytest.raises(RequestValueError, match="is ragged|is nested deeper"):
            build_tensor(value, unknown)
