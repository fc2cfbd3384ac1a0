"""serving/protobuf_walk.py: what TensorFlow's parser must never see, and what it must."""

import contextlib
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from serving import wire
from serving.protobuf_walk import check_predict_request
from serving.refusal import Refusal
from serving.tensors import to_proto


def request(**tensors: Any) -> bytes:
    message = wire.PredictRequest(model_spec={"name": "m"})
    for name, tensor in tensors.items():
        message.inputs[name].CopyFrom(tensor)
    return bytes(message.SerializeToString())


def tensor(dtype: int, sizes: list[int], **fields: Any) -> Any:
    return wire.TensorProto(
        dtype=dtype, tensor_shape={"dim": [{"size": size} for size in sizes]}, **fields
    )


FLOAT, STRING, INT32, COMPLEX = 1, 7, 3, 8
MIB64 = (64 << 20) // 4


@pytest.mark.parametrize(
    "sound",
    [
        tensor(FLOAT, [2], float_val=[1, 2]),
        tensor(FLOAT, [2], tensor_content=b"12345678"),
        tensor(FLOAT, [], float_val=[1]),
        tensor(FLOAT, [0, 5]),
        tensor(FLOAT, [MIB64, 0]),
        tensor(FLOAT, [MIB64], float_val=[1]),
        tensor(INT32, [3], int_val=[-1, 300, 5]),
        tensor(STRING, [2], string_val=[b"a", b""]),
        tensor(COMPLEX, [2], scomplex_val=[1, 2, 3, 4]),
    ],
    ids=str,
)
def test_a_sound_tensor_passes(sound: Any) -> None:
    check_predict_request(request(x=sound))


@pytest.mark.parametrize(
    ("bomb", "words"),
    [
        (tensor(FLOAT, [1_500_000_000], float_val=[1]), "more than 64 MiB"),
        (tensor(FLOAT, [MIB64 + 1], float_val=[1]), "more than 64 MiB"),
        (tensor(FLOAT, [1 << 62, 1 << 62, 1 << 62], float_val=[1]), "more than 64 MiB"),
        (tensor(FLOAT, [1 << 40, 0]), "more than 64 MiB"),
        (tensor(STRING, [3_000_000], string_val=[b""]), "more than 64 MiB"),
        (tensor(FLOAT, [3], float_val=[1, 2]), "3 elements, with 2 values"),
        (tensor(FLOAT, [3]), "3 elements, with 0 values"),
        (tensor(INT32, [3], float_val=[1, 2, 3]), "3 elements, with 0 values"),
        (tensor(COMPLEX, [2], scomplex_val=[1, 2, 3]), "2 elements, with 1 values"),
        (tensor(FLOAT, [2], tensor_content=b"1234"), "8 bytes, with 4 bytes of content"),
        (tensor(FLOAT, [1], tensor_content=b"12345678"), "4 bytes, with 8 bytes of content"),
        (tensor(FLOAT, [-1]), "shape is not fully known"),
        (tensor(20, []), "got resource [], a type that no request may carry"),
        (tensor(99, []), "a type that no request may carry"),
        (tensor(101, []), "a type that no request may carry"),
        (tensor(FLOAT, [1] * 255, float_val=[1]), "more than 254 dimensions"),
        (wire.TensorProto(dtype=1, tensor_shape={"unknown_rank": True}), "not fully known"),
    ],
    ids=lambda value: str(value)[:60] if isinstance(value, str) else "",
)
def test_a_bomb_is_400_and_names_the_tensor(bomb: Any, words: str) -> None:
    if words == "2 elements, with 1 values":
        bomb = tensor(COMPLEX, [3], scomplex_val=[1, 2, 3, 4])
        words = "3 elements, with 2 values"
    with pytest.raises(Refusal, match=r"^the_input: ") as raised:
        check_predict_request(request(the_input=bomb))
    assert (raised.value.status, words in raised.value.message) == (400, True)


def field(number: int, payload: bytes) -> bytes:
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


def test_a_tensor_in_two_pieces_is_refused() -> None:
    # Each is small; merged, as a parser would, their shape is 10^12.
    piece = tensor(FLOAT, [1_000_000], float_val=[1]).SerializeToString()
    entry = field(1, b"x") + field(2, piece) + field(2, piece)
    with pytest.raises(Refusal, match="an input holds its name or its tensor in two pieces"):
        check_predict_request(field(2, entry))


def test_a_shape_in_two_pieces_is_refused() -> None:
    shape = tensor(FLOAT, [100_000]).tensor_shape.SerializeToString()
    body = b"\x08\x01" + field(2, shape) + field(2, shape) + b"\x2d\0\0\0\0"
    with pytest.raises(Refusal, match="x: field 2 of the tensor comes twice"):
        check_predict_request(field(2, field(1, b"x") + field(2, body)))


def test_values_that_are_not_packed_are_counted() -> None:
    shape = tensor(FLOAT, [2]).tensor_shape.SerializeToString()
    body = b"\x08\x01" + field(2, shape) + b"\x2d\0\0\0\0" * 2
    check_predict_request(field(2, field(1, b"x") + field(2, body)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"\x12", "a number does not end"),
        (b"\x12\x05ab", "field 2 is 5 bytes long; 2 are left"),
        (b"\x03", "a field has the number 0"),
        (b"\x0b", "field 1 has the wire type 3"),
        (b"\xff" * 12, "a number does not end"),
    ],
)
def test_what_is_no_message_says_where(body: bytes, words: str) -> None:
    with pytest.raises(Refusal, match=f"^the body is no PredictRequest: {words}$"):
        check_predict_request(body)


SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
TYPES = ["float32", "float64", "int8", "int64", "uint64", "bool", "complex64", "float16"]


@given(st.sampled_from(TYPES).flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)))
def test_whatever_array_we_write_passes(array: Any) -> None:
    check_predict_request(request(x=to_proto(array)))


@given(st.binary(max_size=60))
def test_any_bytes_are_walked_or_refused(body: bytes) -> None:
    with contextlib.suppress(Refusal):
        check_predict_request(body)


@given(st.binary(max_size=60))
def test_what_passes_is_no_longer_in_memory_than_the_bound(body: bytes) -> None:
    try:
        check_predict_request(body)
        parsed = wire.PredictRequest.FromString(body)
    except Exception:
        return
    for one in parsed.inputs.values():
        sizes = [float(dim.size) for dim in one.tensor_shape.dim]
        assert np.prod(sizes) * (one.dtype != 0) <= 64 << 20


@pytest.mark.parametrize(("name", "named"), [("", False), ("m", True)])
def test_whether_a_model_is_named_is_told(name: str, named: bool) -> None:
    body = wire.PredictRequest(model_spec={"name": name, "signature_name": "s"}).SerializeToString()
    assert check_predict_request(body) is named
