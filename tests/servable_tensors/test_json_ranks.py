"""The rank of tensors in JSON, seen by the brackets before the first value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_tensors import TensorError
from servable_tensors.json_tensors import JsonRequest
from servable_tensors.text_bodies import add_signature


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
