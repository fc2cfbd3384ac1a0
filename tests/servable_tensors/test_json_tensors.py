"""servable_tensors/json_tensors.py: the tensors of the model server's own parser, ranks, and refusals."""

import json
import math
import re
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from servable_handler.request import convert_error
from servable_local.container.http_messages import HttpError as TheirRefusal
from servable_local.container.model_server import predict_request as theirs
from servable_tensors import TensorError, json_tensors, wire
from servable_tensors.json_tensors import (
    JsonRequest,
    JsonValueError,
    build_arrays,
    parse,
    parse_response,
    to_array,
)
from servable_tensors.signature import Signature, TensorSpec
from servable_tensors.text_bodies import add_signature

TYPES = [
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "bool", "string",
]  # fmt: skip
NUMBERS = {wire.find_dtype_name(number): number for number in range(1, 24)}
LEAVES = st.one_of(
    st.integers(-300, 300),
    st.sampled_from([2**24, 2**24 + 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63), 10**400, 1e39]),
    st.floats(width=32), st.booleans(), st.none(), st.text("a:\\é\N{SNOWMAN}\0", max_size=3),
    st.sampled_from([{"b64": "YQ=="}, {"b64": "!"}, {"b64": 1}, {}]),
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3), max_leaves=8)
EVEN = st.integers(0, 3).flatmap(
    lambda width: st.lists(st.lists(st.integers(0, 9), min_size=width, max_size=width), max_size=3)
)


def ours_of(value: Any, dtype: str) -> Any:
    read = parse_response(json.dumps({"outputs": value}).encode())
    try:
        return to_array(read, TensorSpec(NUMBERS[dtype], None))
    except JsonValueError:
        return None


def theirs_of(value: Any, dtype: str) -> Any:
    try:
        return theirs.to_array(value, dtype)
    except TheirRefusal:
        return None


@given(st.one_of(VALUES, EVEN), st.sampled_from(TYPES))
def test_a_value_is_the_tensor_that_the_model_server_makes_of_it(value: Any, dtype: str) -> None:
    ours, other = ours_of(value, dtype), theirs_of(value, dtype)
    assert (ours is None) == (other is None)
    if ours is not None:
        assert (ours.shape, ours.dtype) == (other.shape, other.dtype)
        assert np.array_equal(ours, other, equal_nan=ours.dtype.kind == "f")


TWO = Signature(
    "s", {"a": TensorSpec(9, (None,)), "b": TensorSpec(7, (None,))}, {"y": TensorSpec(1, None)}
)
ONE = Signature("s", {"x": TensorSpec(1, (None, 2))}, {})


def test_rows_and_columns_are_the_same_tensors() -> None:
    cases: list[Any] = [
        {"instances": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]},
        {"inputs": {"a": [1, 2], "b": ["x", "y"]}},
    ]
    for body in cases:
        found = build_arrays(body, TWO)
        shown = {name: array.tolist() for name, array in found.items()}
        assert shown == {"a": [1, 2], "b": [b"x", b"y"]}
    found = build_arrays(parse(b'{"inputs": [[NaN, -Infinity]]}'), ONE)["x"]
    assert json.dumps(found.tolist()) == "[[NaN, -Infinity]]"


@pytest.mark.parametrize(("body", "signature", "words"), [
    ({"instances": [1]}, TWO, "the body names no inputs and the signature takes a int64 [any]"),
    ({"instances": []}, ONE, "at least one row"),
    ({"instances": 3}, ONE, "at least one row"),
    ({"instances": [{"a": 1, "b": "x"}, {"a": 2}]}, TWO, "every row must be an object"),
    ({"instances": [{"a": 1, "b": "x"}, 5]}, TWO, "every row must be an object"),
    ({"inputs": {"a": [1.5], "b": [3]}}, TWO, "a: holds 1.5, no whole number; the signature wants int64"),
    ({"inputs": {"a": [1.5], "b": [3]}}, TWO, "b: holds 3, no string; the signature wants string"),
    ({"inputs": {"c": [1]}}, TWO, "'c': given, and no input of the signature"),
    ({"inputs": [[1, 2], [3]]}, ONE, "x: is ragged"),
    ({"inputs": [[1, [2]]]}, ONE, "x: is ragged"),
    ({"inputs": [[16777217, 0]]}, ONE, "x: holds 16777217, which the type can't represent exactly"),
    ({"inputs": [[1e39, 0]]}, ONE, "x: holds a number that is too large"),
])  # fmt: skip
def test_a_refusal_names_input_value_and_type(body: Any, signature: Signature, words: str) -> None:
    with pytest.raises(TensorError, match=re.escape(words)):
        build_arrays(body, signature)


def test_what_is_no_request_is_400() -> None:
    for body in [b"", b"{", b"[1]", b"{}", b'{"inputs":1,"instances":[1]}', b"\xff"]:
        with pytest.raises(TensorError) as raised:
            parse(body)
        assert convert_error(raised.value).status == 400
    with pytest.raises(TensorError, match="the body is no JSON"):
        parse(b'{"inputs":' + b"[" * 100_000)
    for depth in range(900, 1010):
        body = b'{"inputs": ' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
        with pytest.raises(TensorError):
            build_arrays(parse(body), TWO)
        with pytest.raises(TensorError):
            build_arrays(parse(b'{"inputs": [[' + body + b", 1]]}"), ONE)


def orjsons(body: bytes) -> Any:
    """Reads what orjson reads: no NaN, no infinity, and of a key that appears twice the last."""
    if any(math.isinf(float(text)) for text in re.findall(rb"(?<![-\d.])[-\d.]+[eE][-+\d]+", body)):
        raise ValueError("number is infinity when parsed as double")
    return json.loads(body.decode(), parse_constant=lambda name: json.loads(""))


@pytest.fixture(params=["json", "like orjson", "orjson"])
def _parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: Any = orjsons if request.param == "like orjson" else None
    if request.param == "orjson":
        loads = pytest.importorskip("orjson").loads
    monkeypatch.setattr(json_tensors, "_fast_loads", loads)


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(("body", "words"), [
    (b'{"inputs": [[1, 1e400]]}', "holds a number that is too large"),
    (b'{"inputs": [[Infinity, -1e400]]}', "holds a number that is too large"),
    (b'{"inputs": [[1, 2]], "inputs": [[3, 4]]}', "the key 'inputs' appears twice"),
    (b'{"inputs": {"y": 1, "x": [[1, 2]], "x": [[3, 4]]}}', "the key 'x' appears twice"),
    (b'{"instances": [{"x": [1, 2], "x": [3, 4]}]}', "the key 'x' appears twice"),
    (b'{"instances": [[1, {"b64": "", "b64": "AA=="}]]}', "the key 'b64' appears twice"),
    (b'{"inputs": [[1, 2]], "signature_name": ":", "signature_name": "s"}', "appears twice"),
    (b'{"inputs": [[1, 01]]}', "the body is no JSON"),
    (b'{"inputs": [[1, 0x1]]}', "the body is no JSON"),
    (b'{"inputs": [[1, 1_0]]}', "the body is no JSON"),
    ('{"inputs": [[1, \u0661]]}'.encode(), "the body is no JSON"),
    (b'{"inputs": [[1, ' + b"9" * 5000 + b"]]}", "the body is no JSON"),
    (b'{"inputs": [[1, ' + b"9" * 400 + b"]]}", "float32 can't represent"),
    (b'\xef\xbb\xbf{"inputs": [[1, 2]]}', "the body is no JSON"),
    ('{"inputs": [[1, 2]]}'.encode("utf-16"), "the body is no JSON"),
    (b'{"inputs": "\xff"}', "the body is no JSON"),
])  # fmt: skip
def test_what_json_parsers_read_differently_is_400(body: bytes, words: str) -> None:
    with pytest.raises(TensorError, match=words) as raised:
        build_arrays(parse(body), ONE)
    assert convert_error(raised.value).status == 400


@pytest.mark.usefixtures("_parser")
@pytest.mark.parametrize(("body", "values"), [
    (b'{"inputs": [[-0, 1E2]]}', [[0, 100]]),
    (b'{"inputs": [[Infinity, -Infinity]]}', [[math.inf, -math.inf]]),
    (b'{"inputs": %s1%s}' % (b"[" * 32, b"]" * 32), json.loads("[" * 32 + "1" + "]" * 32)),
    (b'{"inputs": {"x": [[1, 1e-400]]}, "signature_name": ":"}', [[1, 0]]),
    (b'{"instances": [{"x": [1, 2]}, {"x": [3, 4]}]}', [[1, 2], [3, 4]]),
])  # fmt: skip
def test_every_parser_finds_the_same_numbers(body: bytes, values: Any) -> None:
    assert build_arrays(parse(body), ONE)["x"].tolist() == values


@pytest.mark.parametrize(("text", "ranks"), [
    ('{"instances": [[[[1.0]]]]}', {"x": 4}),
    ('{"instances": [1.0]}', {"x": 1}),
    ('{"inputs": [[1.0, 2.0]]}', {"x": 2}),
    ('{"inputs": 1.0}', {"x": 0}),
    ('{"inputs": [[]]}', {"x": 2}),
    (' {\n "inputs" : [ [\t[ 1 ] ] ] }', {"x": 3}),
    ('{"instances": [{"x": [[1]], "y": 2}, {"x": [[1]], "y": 2}]}', {"x": 3}),
    ('{"instances": [{"y": ["x"], "x": [[1]]}]}', {"x": 3}),
    ('{"inputs": {"y": [[[[1]]]], "x": [[1]]}}', {"x": 2}),
    ('{"inputs": {"inputs": [[1]], "x": [1]}}', {"x": 1}),
    ('{"inputs": {"y": 1}}', {}),
    ('{"signature_name": "s", "instances": [[1]]}', {"x": 2}),
    ('{"instances": [[1]], "signature_name": "s"}', {"x": 2}),
    ('{"inst\\u0061nces": [1], "instances": [[[[1]]]]}', {"x": 1}),
    ('{"instances": [1], "instances": [[[[1]]]]}', {"x": 1}),
    ('{"other": 0, "instances": [1], "instances": [[[[1]]]]}', {"x": 1}),
    ('{"other": {"instances": [1]}, "instances": [[[[1]]]]}', {"x": 4}),
    ('{"instances": [{"\\u0078": [[1]]}]}', {"x": 3}),
    ('{"inputs": [NaN]}', {"x": 1}),
    ('{"a": 0, "inputs": [Infinity]}', {"x": 1}),
    ('"instances": [1]', None),
    ('{"other": 1, "instances": [Inf]}', None),
    ("[[1]]", {"x": 0}),
])  # fmt: skip
def test_the_rank_is_what_the_model_server_takes(text: str, ranks: dict[str, int] | None) -> None:
    if ranks is None:
        with pytest.raises(TensorError, match="the body is no JSON"):
            JsonRequest(text.encode()).find_ranks(["x"])
    else:
        assert JsonRequest(text.encode()).find_ranks(["x"]) == ranks


def test_a_name_that_can_stand_between_strings_is_no_key_there() -> None:
    assert JsonRequest(b'{"inputs":{"x":["{",":[["],",":[1]}}').find_ranks([","]) == {",": 1}


@pytest.mark.parametrize(("text", "name"), [
    ('{"instances": [1]}', None),
    ('{"signature_name": "s", "instances": [1]}', "s"),
    ('{"signature_name": "", "instances": [1]}', None),
    ('{"instances": [1], "signature_name": "s"}', "s"),
    ('{"instances": ["signature_name"]}', None),
    ('{"signature_name": "\\u0073", "instances": [1]}', "s"),
    ('{"signature_name": 5, "instances": [1]}', None),
    (add_signature(b'{"instances": [1]}', "s").decode(), "s"),
])  # fmt: skip
def test_the_signature_is_the_one_that_the_body_names(text: str, name: str | None) -> None:
    assert JsonRequest(text.encode()).signature == name


names = st.sampled_from(["x", "inputs", "instances", "signature_name", "a b", ",", "{", '"', "é"])
values = st.recursive(
    st.sampled_from([1, -2.5, None, True, "x", "inputs", '"x":[', "{", ",", "\\", {"b64": "YQ=="}]),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.long
@given(
    form=st.sampled_from(["instances", "inputs"]), named=st.booleans(), wanted=names,
    others=st.dictionaries(names, values, max_size=3), value=values,
    signature=st.none() | st.sampled_from(["s", "", 'a"b']), first=st.booleans(),
    indent=st.sampled_from([None, 1]),
)  # fmt: skip
def test_however_a_body_is_written_its_rank_is_that_of_what_python_reads(
    form: str, named: bool, wanted: str, others: dict[str, Any], value: Any,
    signature: str | None, first: bool, indent: int | None,
) -> None:  # fmt: skip
    named = named or "b64" in str(value)  # without a name an object could be rows as well
    content = {**others, wanted: value} if named else value
    request: dict[str, Any] = {form: [content] if form == "instances" else content}
    if signature is not None:
        name = {"signature_name": signature}
        request = name | request if first else request | name
    rank = _depth(value) + (form == "instances")
    text = json.dumps(request, indent=indent).encode()
    assert JsonRequest(text).find_ranks([wanted]) == {wanted: rank}


def _depth(value: Any) -> int:
    return 1 + (_depth(value[0]) if value else 0) if isinstance(value, list) else 0
