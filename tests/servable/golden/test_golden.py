"""Golden requests of captured ones: what the set covers, what is left out, and what is written."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

from infra.parameters.loading import load
from servable.answers.differences import find_differences
from servable.captured.lines import CapturedRequest, RecordedAnswer
from servable.golden.command import GoldenSelection, explain_unsuitable, golden
from servable_tensors import wire
from servable_tensors.codecs import CODECS, CSV, JSON, NPY, NPZ, PROTOBUF
from servable_tensors.npy import to_npy
from servable_tensors.predict_messages import serialize_model_spec, serialize_predict_request
from tests.conftest import valid
from tests.servable.replay.captures import request, written

ANSWER = RecordedAnswer(body=b'{"predictions": [0.5]}', content_type=JSON)


def asked(
    body: bytes | dict[str, object], content_type: str = JSON, **more: object
) -> CapturedRequest:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    made = request(content_type=content_type, body=content)
    changes = {"event_id": repr(content)[:200], "answer": ANSWER, **more}
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def rows(*values: float) -> CapturedRequest:
    return asked({"instances": [{"x": [value, 0.5]} for value in values]})


def chosen(*several: CapturedRequest, most: int = 12) -> list[CapturedRequest]:
    selection = GoldenSelection()
    for one in several:
        selection.add(one)
    return [one for one, _ in selection.select(most)]


LEAST, GREATEST, LONGEST = rows(-9.0), rows(9.0), rows(*[1.0] * 30)


def test_what_only_one_of_many_requests_holds_is_covered_by_few() -> None:
    spec = serialize_model_spec("", None, "regress")
    cases: list[CapturedRequest] = [
        LEAST,
        GREATEST,
        LONGEST,
        asked({"inputs": {"x": [[1.0, 0.5]]}}),
        asked({"instances": [{"x": [1.0, 0.5]}], "signature_name": "other"}),
        asked({"instances": [{"x": [1.0, 0.5, 0.5]}]}),
        asked({"instances": [{"y": [1.0, 0.5]}]}),
        asked({"instances": [{"x": ["a", "b"]}]}),
        asked(b"1,0.5\n", CSV),
        asked(to_npy(np.ones((1, 2))), NPY),
        asked(serialize_predict_request(spec, {"x": np.ones((1, 2))}), PROTOBUF),
        asked(b'{"instances": [{"x": [NaN, 0.5]}]}'),
        asked(b'{"instances": [{"x": [Infinity, 0.5]}]}'),
    ]
    ordinary = [rows(*[0.5] * 20), *(rows(number / 10) for number in range(50))]
    for special in cases:
        assert special in chosen(*ordinary[:25], special, *ordinary[25:])
    small, large = (asked(b'{"instances":%s[{"x": [1, 2, 3]}]}' % (b" " * n)) for n in (1, 2))
    assert [one for one in chosen(large, small, *ordinary) if one in (small, large)] == [small]
    several = (asked({"instances": [at], "signature_name": str(at)}) for at in range(300))
    assert len(chosen(*several)) == 12

    assert len(chosen(*(rows(number / 10) for number in range(200)))) <= 3
    everything = asked({"inputs": {"x": [[-99.0, 99.0]] * 9}})
    assert chosen(*(rows(number / 10) for number in range(20)), everything, most=1) == [everything]


def test_what_golden_requests_cannot_hold_is_left_out() -> None:
    cases: list[tuple[CapturedRequest, str]] = [
        (asked({}, answer=None), "without a successful response"),
        (asked({}, answer=dataclasses.replace(ANSWER, status=500)), "without a successful response"),
        (asked(b"", NPZ), "of content type application/x-npz"),
        (asked({}, custom_attributes="tfs-model-name=b"), "with custom attributes"),
        (asked({}, answer=dataclasses.replace(ANSWER, content_type=NPY)), "a response in application/x-npy"),
    ]  # fmt: skip
    for captured, reason in cases:
        assert reason in str(explain_unsuitable(captured))


def test_the_written_file_loads_and_json_says_whether_a_request_can_be_golden(prod: Path) -> None:
    def call(*options: str) -> Result:
        given = ["prod", "--from-captured", *options]
        return CliRunner().invoke(golden, given, standalone_mode=False)

    def read_model() -> Any:
        return valid(*load(prod, prod / "environments")).environment.models["ranker"]

    written(prod / "captured" / "x.jsonl", LEAST, GREATEST)
    assert call("captured", "--write").return_value == 0
    pairs = ((one.request, one.answer) for one in read_model().golden_requests.values())
    kept = [[(prod / name).read_bytes() for name in names] for names in pairs]
    assert sorted(kept) == sorted([[one.body, ANSWER.body] for one in (LEAST, GREATEST)])
    text = (prod / "environments" / "prod.toml").read_text()
    assert text.count("\n\n[variants.primary]\n") == 1
    # Writing again replaces its tables.
    call("captured", "--write", "--most", "1")
    assert len(read_model().also_golden) == 1
    unanswered = asked({}, answer=None)
    for captured, code, verdict in ((LEAST, 0, "holds"), (unanswered, 1, "does not hold")):
        written(prod / "others" / "x.jsonl", captured)
        answer = call("others", "--json")
        assert (answer.return_value, json.loads(answer.stdout)["verdict"]) == (code, verdict)


def test_the_first_element_that_differs_beyond_the_tolerance_is_named() -> None:
    def encode(value: float) -> bytes:
        outputs = {"p": np.array([value], "<f4")}
        encoded = CODECS[PROTOBUF].encode_response(outputs, rows=False, model_spec=wire.ModelSpec)
        return bytes(encoded)

    for off, count in [(1e-6, 0), (1e-2, 1)]:
        assert len(list(find_differences(encode(0.5), encode(0.5 + off), 1e-4))) == count
    for changed, found in ((b"0.60001", []), (b"0.7", [("output[1][0]", 0.6, 0.7)])):
        after = b"0.5,1\n%s,2\n" % changed
        assert list(find_differences(b"0.5,1\n0.6,2\n", after, 1e-4, CSV)) == found
    before, after = (to_npy(np.array([[1 + 1j, 1 + end]])) for end in (1j, 3j))
    assert [*find_differences(before, after, 1e-4)] == [("output[0][1]", 1 + 1j, 1 + 3j)]
    cases: list[tuple[str, str, tuple[object, ...]]] = [
        ('{"predictions": [[1, 0.4]]}', '{"predictions": [[1, 0.5]]}', ("output[0][1]", 0.4, 0.5)),
        ('{"predictions": [{"y": "a"}]}', '{"predictions": [{"y": "b"}]}', ("y[0]", "a", "b")),
        ('{"outputs": {"a": [1]}}', '{"outputs": {}}', ("a", "an output", "none")),
        ('{"outputs": [[1, 2]]}', '{"outputs": [[1]]}', ("output", "int64 [1, 2]", "int64 [1, 1]")),
    ]
    for wanted, actual, difference in cases:
        assert next(find_differences(wanted.encode(), actual.encode(), 1e-4)) == difference
