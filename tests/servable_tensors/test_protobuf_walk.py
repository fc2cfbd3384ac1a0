"""servable_tensors/protobuf_walk.py: what TensorFlow's parser must never see, and what it must."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from servable_handler.request import convert_error
from servable_tensors import TensorError, wire
from servable_tensors.protobuf_walk import check_predict_request, has_named_model
from servable_tensors.tensor_walk import count_packed_varints
from servable_tensors.wire import iterate_fields


def request(**tensors: Any) -> bytes:
    message = wire.PredictRequest(model_spec={"name": "m"})
    for name, tensor in tensors.items():
        message.inputs[name].CopyFrom(tensor)
    return bytes(message.SerializeToString())


def tensor(dtype: int, sizes: list[int], **fields: Any) -> Any:
    tensor_shape = {"dim": [{"size": size} for size in sizes]}
    return wire.TensorProto(dtype=dtype, tensor_shape=tensor_shape, **fields)


def refusal(body: bytes) -> str:
    """Return the words with which the body is answered 400."""
    with pytest.raises(TensorError) as raised:
        check_predict_request(body)
    assert convert_error(raised.value).status == 400
    return str(raised.value)


FLOAT, STRING, INT32, COMPLEX = 1, 7, 3, 8
MIB64 = (64 << 20) // 4


@pytest.mark.parametrize(
    "sound",
    [tensor(FLOAT, [2], float_val=[1, 2]), tensor(FLOAT, [2], tensor_content=b"12345678"),
     tensor(FLOAT, [], float_val=[1]), tensor(FLOAT, [0, 5]), tensor(FLOAT, [MIB64, 0]),
     tensor(FLOAT, [MIB64], float_val=[1]), tensor(INT32, [3], int_val=[-1, 300, 5]),
     tensor(STRING, [2], string_val=[b"a", b""]), tensor(COMPLEX, [2], scomplex_val=[1, 2, 3, 4])],
    ids=str,
)  # fmt: skip
def test_a_sound_tensor_passes(sound: Any) -> None:
    check_predict_request(request(x=sound))


@pytest.mark.parametrize(("bomb", "words"), [
    (tensor(FLOAT, [1_500_000_000], float_val=[1]), "which exceeds 64 MiB"),
    (tensor(FLOAT, [MIB64 + 1], float_val=[1]), "which exceeds 64 MiB"),
    (tensor(FLOAT, [1 << 62, 1 << 62, 1 << 62], float_val=[1]), "which exceeds 64 MiB"),
    (tensor(FLOAT, [1 << 40, 0]), "which exceeds 64 MiB"),
    (tensor(STRING, [3_000_000], string_val=[b""]), "which exceeds 64 MiB"),
    (tensor(FLOAT, [3], float_val=[1, 2]), "3 elements, with 2 values"),
    (tensor(FLOAT, [3]), "3 elements, with 0 values"),
    (tensor(INT32, [3], float_val=[1, 2, 3]), "3 elements, with 0 values"),
    (tensor(COMPLEX, [3], scomplex_val=[1, 2, 3, 4]), "3 elements, with 2 values"),
    (tensor(FLOAT, [2], tensor_content=b"1234"), "8 bytes, with 4 bytes of content"),
    (tensor(FLOAT, [1], tensor_content=b"12345678"), "4 bytes, with 8 bytes of content"),
    (tensor(FLOAT, [-1]), "shape is not fully known"),
    (tensor(20, []), "got resource [], a type that a request can't contain"),
    (tensor(99, []), "a type that a request can't contain"),
    (tensor(101, []), "a type that a request can't contain"),
    (tensor(FLOAT, [1] * 255, float_val=[1]), "more than 254 dimensions"),
    (wire.TensorProto(dtype=1, tensor_shape={"unknown_rank": True}), "not fully known"),
], ids=lambda value: str(value)[:60] if isinstance(value, str) else "")  # fmt: skip
def test_a_bomb_is_400_and_names_the_tensor(bomb: Any, words: str) -> None:
    said = refusal(request(the_input=bomb))
    assert (said.startswith("the_input: "), words in said) == (True, True), said


def field(number: int, payload: bytes) -> bytes:
    length = len(payload)
    written = bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7])
    return bytes([number << 3 | 2]) + written + payload


def test_a_field_in_two_pieces_is_refused_and_values_that_are_not_packed_pass() -> None:
    # Each is small; merged, as a parser would, their shape is 10^12.
    piece = tensor(FLOAT, [1_000_000], float_val=[1]).SerializeToString()
    entry = field(1, b"x") + field(2, piece) + field(2, piece)
    assert "field 2 of an input is unknown, invalid, or repeated" in refusal(field(2, entry))
    shape = tensor(FLOAT, [100_000]).tensor_shape.SerializeToString()
    body = b"\x08\x01" + field(2, shape) + field(2, shape) + b"\x2d\0\0\0\0"
    assert "x: field 2 of the tensor appears twice" in refusal(named(body))
    check_predict_request(named(SMALL))
    shape = tensor(FLOAT, [2]).tensor_shape.SerializeToString()
    check_predict_request(named(b"\x08\x01" + field(2, shape) + b"\x2d\0\0\0\0" * 2))


@pytest.mark.parametrize(("body", "words"), [
    (b"\x12", "a number does not end"),
    (b"\x12\x05ab", "field 2 is 5 bytes long; 2 are left"),
    (b"\x03", "a field has the invalid number 0"),
    (b"\x0b", "field 1 has the wire type 3, which isn't allowed"),
    (b"\xff" * 12, "a number does not end"),
])  # fmt: skip
def test_what_is_no_message_says_where(body: bytes, words: str) -> None:
    assert refusal(body) == f"the body is no PredictRequest: {words}"


SMALL = b"\x08\x01" + field(2, field(2, b"\x08\1")) + b"\x2d\0\0\0\0"  # float32 [1]


def named(tensor: bytes, name: bytes = b"x") -> bytes:
    return field(2, field(1, name) + field(2, tensor))


@pytest.mark.parametrize(("body", "words"), [
    # C++ cuts a tag to 32 bits: it reads tensor_shape [1 << 29] where a walker saw none.
    (named(b"\x08\1\x2d\0\0\0\0\x92\x80\x80\x80\x10" + b"\x08\x12\x06\x08" + b"\x80" * 4 + b"\2"),
     "a field begins with 9280808010, which isn't a tag"),
    (named(b"\x88\0\1" + SMALL[2:]), "a field begins with 8800, which isn't a tag"),
    (b"\x92\x80\0" + named(SMALL)[1:], "a field begins with 928000, which isn't a tag"),
    (b"\x12\x80\x80\x80\x80\x80\0", "a number does not end"),
    (named(SMALL + b"\x38" + b"\xff" * 9 + b"\2"), "a varint has more than 64 bits"),
    (named(SMALL + b"\x13\x14"), "field 2 has the wire type 3"),
    (named(SMALL + b"\x16"), "field 2 has the wire type 6"),
    (named(SMALL + b"\x08\1"), "field 1 of the tensor appears twice"),
    (named(SMALL + b"\x22\0" * 2), "field 4 of the tensor appears twice"),
    (named(b"\x0a\0" + SMALL), "dtype of the tensor has the wire type 2"),
    (named(b"\x0d\1\0\0\0" + SMALL), "dtype of the tensor has the wire type 5"),
    (named(SMALL[:-5] + b"\x28\1"), "float_val of the tensor has the wire type 0"),
    (named(SMALL[:-5] + b"\x2a\3\0\0\0"), "3 bytes, which isn't a multiple of 4"),
    (named(SMALL[:-5] + b"\x2a\0" * 257), "more than 256 pieces"),
    (named(SMALL + b"\x72\0"), "field 14 of the tensor isn't allowed in a request"),
    (named(SMALL + b"\x38\5"), "with values of a different type than its own"),
    (named(SMALL[:-5] + b"\x22\4\0\0\0\0" + SMALL[-5:]), "send one of them"),
    (named(SMALL) * 2, "x: the body contains this input twice"),
    (named(SMALL, b""), "an input has no name"),
    (named(SMALL, b"\xff"), "a name isn't UTF-8"),
    (field(2, field(2, SMALL)), "an input has no name"),
    (field(2, b"\x08\1"), "field 1 of an input is unknown, invalid, or repeated"),
    (named(field(2, field(2, b"\x08\1" + field(2, b"\xff"))) + SMALL[-5:]), "a name isn't UTF-8"),
    (field(2, field(1, b"x")), "x: got invalid"),
    (field(1, b"\x0a\1\xff"), "a name isn't UTF-8"),
    (field(1, b"\x12\1\x08"), "a number does not end"),
    (b"\x48\1" * 10_001, "more than 10000 fields"),
])  # fmt: skip
def test_what_parsers_read_differently_or_nobody_writes_is_refused(body: bytes, words: str) -> None:
    assert words in refusal(body)


@pytest.mark.parametrize(("bad", "words"), [
    (tensor(19, [1], half_val=[-1]), "with -1 in half_val"),
    (tensor(14, [1], half_val=[1 << 16]), "with 65536 in half_val"),
    (tensor(4, [1], int_val=[300]), "with 300 in int_val, which the type can't represent"),
    (tensor(6, [2], int_val=[0, -129]), "with -129 in int_val"),
    (tensor(STRING, [1], tensor_content=b"\1a"), "send strings in string_val"),
    (tensor(COMPLEX, [1], scomplex_val=[1, 2, 3]), "3 parts of complex numbers"),
    (tensor(STRING, [1000], string_val=[b"a" * 100_000]), "take more than 64 MiB together"),
    (tensor(FLOAT, [0], float_val=[1]), "0 elements, with 1 values"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_a_value_tensorflow_would_cut_or_read_otherwise_is_refused(bad: Any, words: str) -> None:
    assert words in refusal(request(x=bad))


def test_values_beyond_their_type_or_large_together_are_refused() -> None:
    body = b"\x08\3" + field(2, b"") + b"\x38\x85\x80\x80\x80\x10"  # int_val: 2**32 + 5
    assert list(wire.TensorProto.FromString(body).int_val) == [5]
    assert "with 4294967301 in int_val" in refusal(named(body))
    check_predict_request(request(x=tensor(10, [2], tensor_content=b"\0\1")))
    assert "neither 0 nor 1" in refusal(request(x=tensor(10, [2], tensor_content=b"\0\7")))
    large = {f"x{n}": tensor(FLOAT, [MIB64 // 2], float_val=[1]) for n in range(3)}
    assert "the inputs take more than 64 MiB together" in refusal(request(**large))


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1), st.integers(1, 300))
def test_packed_numbers_are_those_that_protobuf_reads(numbers: list[int], times: int) -> None:
    packed = wire.TensorProto(uint64_val=numbers * times).SerializeToString()
    ((_, _, start, end),) = iterate_fields(packed, 0, len(packed))
    signed = [n - (1 << 64) if n >> 63 else n for n in numbers]
    found = count_packed_varints(packed, start, end)
    assert found == (len(numbers) * times, min(signed), max(signed))


def test_whether_a_model_is_named_is_found_as_protobuf_reads_it() -> None:
    for name, is_named in [("", False), ("m", True)]:
        body = wire.PredictRequest(model_spec={"name": name, "signature_name": "s"})
        assert check_predict_request(body.SerializeToString()).model_named is is_named
    body = field(1, b"\x0a\1m") + field(1, b"\x1a\1s")
    assert wire.PredictRequest.FromString(body).model_spec.name == "m"
    assert check_predict_request(body).model_named
    examples = {"example_list": {"examples": [b"\x0a\0"]}}
    body = wire.ClassificationRequest(model_spec={"name": "m"}, input=examples)
    assert has_named_model(body.SerializeToString()) is True
