"""Arrays become bodies and come back as they were; no value changes silently."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servable_client import BadAnswerError, BadInputError, FakeEndpoint
from servable_client.batches import merge_outputs
from servable_client.formats import as_arrays, choose_format, decode, encode
from servable_client.options import Selection
from servable_tensors import tensors, wire
from servable_tensors.npy import from_npy, from_npz
from servable_tensors.protobuf_walk import check_predict_request
from tests.servable_client.array_strategies import NAMES, numbers, quick, strings
from tests.servable_client.runtime_server import inputs_of

HERE = Selection()
identity = FakeEndpoint(lambda **inputs: inputs)
identity_of_one = FakeEndpoint(lambda x: {"x": x})


def same(a: Any, b: Any) -> None:
    np.testing.assert_array_equal(a, b, strict=False)
    assert (a.shape, a.dtype.newbyteorder("=")) == (b.shape, b.dtype.newbyteorder("="))


@quick
@given(st.dictionaries(NAMES, numbers() | strings(), min_size=1, max_size=3))
def test_named_arrays_reach_the_handler_as_protobuf_and_come_back_as_they_were(arrays: Any) -> None:
    body = encode("protobuf", arrays, HERE)
    check_predict_request(body)
    received, found = inputs_of(body), identity.predict(arrays, format="protobuf")
    assert found.keys() == received.keys() == arrays.keys()
    for name, array in arrays.items():
        same(received[name], array)
        same(found[name], array)


@pytest.mark.long
@quick
@given(st.dictionaries(NAMES, numbers() | strings(ending=b"."), min_size=1, max_size=3))
def test_named_arrays_reach_the_handler_as_npz_and_come_back_as_they_were(arrays: Any) -> None:
    received = from_npz(encode("npz", arrays, HERE))
    found = identity.predict(arrays, format="npz")
    for name, array in arrays.items():
        same(received[name], array)
        same(found[name], array)


@quick
@given(numbers() | strings(ending=b"."))
def test_an_array_reaches_the_handler_as_npy_and_comes_back_as_it_was(array: Any) -> None:
    same(from_npy(encode("npy", {"x": array}, HERE)), array)
    same(identity_of_one.predict(array, format="npy")["x"], array)


@quick
@given(st.dictionaries(NAMES, numbers(["?", "i8", "f8"]) | strings(), min_size=1, max_size=3))
def test_what_json_has_types_for_comes_back_as_it_was(arrays: Any) -> None:
    arrays = {name: array for name, array in arrays.items() if array.size}
    if arrays:
        found = identity.predict(arrays, format="json")
        for name, array in arrays.items():
            same(found[name], array)


@quick
@given(numbers(["f2", "f4", "i1", "u2", "i4"]))
def test_narrow_numbers_come_back_from_json_exactly(array: Any) -> None:
    if array.size:
        same(identity_of_one.predict(x=array, format="json")["x"].astype(array.dtype), array)


LARGE = {
    "f4": ("float_val", 1), "f8": ("double_val", 2), "i8": ("int64_val", 9),
    "i4": ("int_val", 3), "?": ("bool_val", 10), "u1": ("int_val", 4),
}  # fmt: skip


def test_a_large_answer_is_read_in_every_encoding() -> None:
    def read(written: Any) -> Any:
        response = wire.PredictResponse()
        response.outputs["y"].CopyFrom(written)
        return decode("application/x-protobuf", bytes(response.SerializeToString()))["y"]

    for dtype in LARGE:
        for encoding in ["values", "content"]:
            array = (np.arange(90_000) % 100).astype(dtype).reshape(300, 300)
            written = tensors.to_proto(array)
            if encoding == "values":
                field, number = LARGE[dtype]
                assert written.dtype == number
                written.ClearField("tensor_content")
                getattr(written, field).extend(array.ravel().tolist())
            same(read(written), array)

    array = np.array([b"a word" * 9] * 2000, object)
    same(read(tensors.to_proto(array)), array)

    array = np.arange(90_000, dtype="f4") % 256
    written = tensors.to_proto(array, tensors.BFLOAT16)
    same(read(written), array)


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_a_damaged_answer_is_a_bad_answer_and_nothing_else(data: Any) -> None:
    arrays = {"y": np.arange(20_000, dtype="f4"), "z": np.arange(3)}
    kind = data.draw(st.sampled_from(["npy", "npz", "json", "protobuf"]))
    if kind == "protobuf":
        response = wire.PredictResponse()
        for name, array in arrays.items():
            response.outputs[name].CopyFrom(tensors.to_proto(array))
        body = bytearray(response.SerializeToString())
    elif kind == "json":
        body = bytearray(b'{"outputs": {"y": [1.5, 2], "z": ["a", {"b64": "YQ=="}]}}')
    else:
        one = {"y": arrays["y"]} if kind == "npy" else arrays
        body = bytearray(encode(kind, one, HERE))
    for _ in range(data.draw(st.integers(1, 3))):
        # Near the beginning, where heads are, more often than in the numbers.
        last = data.draw(st.sampled_from([60, len(body) - 1]))
        at = data.draw(st.integers(0, min(last, len(body) - 1)))
        body[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.sampled_from([len(body), len(body) // 2]))
    try:
        decode(f"application/{'json' if kind == 'json' else 'x-' + kind}", bytes(body[:cut]))
    except BadAnswerError:
        pass


def test_text_that_is_none_or_another_type_is_a_bad_answer() -> None:
    for order in "<>":
        body = encode("npy", {"x": np.array([0x7FFFFFFF] * 3, f"{order}u4")}, HERE)
        with pytest.raises(BadAnswerError, match="isn't valid Unicode"):
            decode("application/x-npy", body.replace(b"u4", b"U1"))
    with pytest.raises(BadAnswerError, match="the response is text/html"):
        decode("text/html", b"<html>")


def test_model_version_and_signature_are_in_the_message_and_rows_become_columns() -> None:
    body = b'{"predictions": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]}'
    found = decode("application/json", body)
    shown = {name: array.tolist() for name, array in found.items()}
    assert shown == {"a": [1, 2], "b": [b"x", b"y"]}
    body = encode("protobuf", {"x": np.zeros(1)}, Selection(model="m", version=7, signature="s"))
    spec = wire.PredictRequest.FromString(body).model_spec
    assert (spec.name, spec.version.value, spec.signature_name) == ("m", 7, "s")


@pytest.mark.parametrize(("arrays", "form"), [
    ({"x": np.zeros((3, 4), "f4")}, "protobuf"),
    ({"a": np.zeros(2, "i8"), "b": np.zeros(2, "f4")}, "json"),
    ({"a": np.zeros(9000, "i8"), "b": np.zeros(2, "f4")}, "protobuf"),
    ({"a": np.array([b"x"], object)}, "json"),
    ({"a": np.array([b"x" * 3000], object)}, "protobuf"),
    ({"a": np.zeros(2, "c8"), "b": np.zeros(2, "f4")}, "protobuf"),
    ({"": np.zeros((3, 4), "f4")}, "npy"),
    ({"": np.array([b"x"], object)}, "json"),
])  # fmt: skip
def test_the_form_is_chosen_by_size_and_types(arrays: Any, form: str) -> None:
    assert choose_format(arrays) == form


@pytest.mark.parametrize(("value", "form"), [
    (np.array([b"a\0"], object), "npz"),
    (np.zeros(2, "c8"), "json"),
    (np.zeros(2), "pickle"),
    ([[1], [1, 2]], None),
])  # fmt: skip
def test_what_a_form_cannot_hold_is_refused_unsent(value: Any, form: Any) -> None:
    with pytest.raises(BadInputError):
        identity.predict(x=value, format=form)


def test_a_few_numbers_in_lists_take_the_signatures_types(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint, sent = FakeEndpoint(lambda x: {"y": x}), []
    carry = endpoint._transport.send

    def send(request: Any, *, seconds: float) -> Any:
        sent.append(request.content_type.rpartition("/")[2])
        return carry(request, seconds=seconds)

    monkeypatch.setattr(endpoint._transport, "send", send)
    for value in ([1.5, 2], [1.5] * 1000, np.float32(1)):
        endpoint.predict(x=value)
    assert sent == ["json", "x-protobuf", "x-protobuf"]


def test_bfloat16_is_sent_as_it_is() -> None:
    for form in ["protobuf", "npy", "npz"]:
        for shape in [(), (0,), (3, 2)]:
            ml_dtypes = pytest.importorskip("ml_dtypes")
            array = np.ones(shape, ml_dtypes.bfloat16) * 1.5
            body = encode(form, {"x": array.astype(ml_dtypes.bfloat16)}, HERE)
            if form == "protobuf":
                check_predict_request(body)
                same(inputs_of(body)["x"], np.full(shape, 1.5, "f4"))
            else:
                read = from_npy(body) if form == "npy" else from_npz(body)["x"]
                assert (read.dtype.str, read.shape) == ("|V2", shape)


FORMS = ["protobuf", "npz", "json"]
INTEGERS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5),
)


@quick
@given(INTEGERS, st.sampled_from(FORMS))
def test_integers_of_64_bits_in_lists_stay_exact(values: list[int], form: Any) -> None:
    assert identity.predict(x=values, format=form)["x"].tolist() == values


@pytest.mark.parametrize("body", [
    b'{"predictions": [{"a": 1}, {"b": 2}]}',
    b'{"outputs": [[1], [2, 3]]}',
    b'{"outputs": [1, null]}',
    b'{"outputs": ["a", 1]}',
    b'{"outputs": [1], "outputs": [2]}',
    b'{"outputs": [9007199254740993, 0.5]}',
    b'{"outputs": [18446744073709551616]}',
    b'{"outputs": [18446744073709551615, -1]}',
    b'{"outputs": [1e400]}',
    b'{"outputs": [-' + b"9" * 320 + b'.0]}',
    b'{"outputs": {"y": [1], "y": [2]}}',
    b'{"outputs": [true, 2]}',
    b'{"outputs": ["\\ud800"]}',
    b'{"outputs": ["\\udc80"]}',
    b'{"outputs": [{"b64": "YQ==", "b65": "Yg=="}]}',
    b'{"outputs": [1, [2]]}',
])  # fmt: skip
def test_json_whose_values_no_array_holds_is_a_bad_answer(body: bytes) -> None:
    with pytest.raises(BadAnswerError, match="cannot be read"):
        decode("Application/JSON; q=1", body)


@pytest.mark.parametrize("values", [
    [2**53 + 1, 0.5],
    [np.int64(2**53 + 1), np.float64(0.5)],
    [np.array([2**53 + 1]), np.array([0.5])],
    [2**63, -1],
    [2**64],
    [True, 2],
    [[True], [0.5]],
    [1, "a"],
    ["a", None],
    [Decimal("1.5")],
    np.ma.masked_array([1.0, 2.0], [False, True]),
    [np.ma.masked, 1.0],
    [np.ma.masked_array([1.0], [True])],
    "half \ud800",
    ["\udc80"],
    np.array(["\ud800"]),
    np.zeros(2, np.longdouble),
    np.zeros(2, "V2"),
    np.zeros(2, "M8[s]"),
    np.zeros(2, [("a", "f4")]),
    np.array([1, "a"], object),
], ids=repr)  # fmt: skip
def test_what_would_change_is_refused_unsent(values: Any) -> None:
    for form in [*FORMS, None]:
        before = len(identity.calls)
        with pytest.raises(BadInputError):
            identity.predict(x=values, format=form)
        assert len(identity.calls) == before


def test_what_no_tensor_holds_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadInputError, match=r"x: holds a masked array.*pass x.filled"):
        identity.predict(x=np.ma.masked_array([1.0], [False]))
    with pytest.raises(BadInputError, match="half of a surrogate pair"):
        identity.predict(x="\ud800")
    cases: list[Any] = ["\ud800", 1, b"x"]
    for name in cases:
        with pytest.raises(BadInputError):
            identity.predict({name: [1.0]})


def test_a_shape_without_values_arrives_or_is_refused() -> None:
    for form in FORMS:
        for shape in [(0, 3), (3, 0, 2)]:
            if form == "json":
                with pytest.raises(BadInputError, match="JSON can't keep the shape"):
                    identity.predict(x=np.zeros(shape), format=form)
            else:
                assert identity.predict(x=np.zeros(shape), format=form)["x"].shape == shape


def test_zeros_scalars_and_what_is_no_number_arrive() -> None:
    cases: list[Any] = ["protobuf", "json"]
    for form in cases:
        assert identity.predict(x=["a\0", "b"], format=form)["x"].tolist() == [b"a\0", b"b"]
    for form in FORMS:
        found = identity.predict(x=[np.nan, np.inf, -np.inf, -0.0], format=form)["x"]
        np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf, -0.0])
        assert np.signbit(found[3])
    for form in FORMS:
        assert identity.predict(x=np.float64(0.1), format=form)["x"].tolist() == 0.1


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1, 2.5], "f8"), (range(3), "i8"), ([np.float32(1), np.float32(2)], "f4"), ([True], "?"),
     ([np.arange(2), np.arange(2)], "i8"), ((1, 2), "i8"), ([1, 1j], "c16"), ([], "f8")],
)  # fmt: skip
def test_lists_become_the_arrays_that_numpy_makes_of_them(values: Any, dtype: str) -> None:
    found = as_arrays(None, {"x": values})["x"]
    np.testing.assert_array_equal(found, np.asarray(values))
    assert found.dtype == dtype


def test_what_no_header_carries_is_refused() -> None:
    for option in ["inference_id", "variant", "target_model"]:
        for text in ["a\r\nb", "\ud800", "☃"]:
            with pytest.raises(BadInputError, match="header"):
                identity.predict(x=1.0, **{option: text})  # type: ignore[arg-type]


PIECES: dict[str, tuple[list[Any], list[Any] | None]] = {
    "integers and fractions": ([np.array([1]), np.array([0.5])], [1.0, 0.5]),
    "a large integer and fractions": ([np.array([2**53 + 1]), np.array([0.5])], None),
    "int64 and uint64": ([np.array([1]), np.array([2**63], "u8")], [1, 2**63]),
    "below nothing and uint64": ([np.array([-1]), np.array([2**63], "u8")], None),
    "numbers and strings": ([np.array([1]), np.array([b"a"], object)], None),
    "numbers and truth values": ([np.array([1]), np.array([True])], None),
    "float32 and float64": ([np.array([0.5], "f4"), np.array([0.1])], [0.5, 0.1]),
}


@pytest.mark.parametrize("name", PIECES)
def test_parts_of_different_types_are_joined_exactly_or_not_at_all(name: str) -> None:
    pieces, wanted = PIECES[name]
    if wanted is None:
        with pytest.raises(BadAnswerError):
            merge_outputs([{"y": piece} for piece in pieces], [1, 1])
    else:
        assert merge_outputs([{"y": piece} for piece in pieces], [1, 1])["y"].tolist() == wanted
