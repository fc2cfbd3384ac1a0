"""Golden requests of captured ones: what the set covers, what is left out, and what is written."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from infra.parameters.loading import ValidFile, load
from servable.answers.differences import find_differences
from servable.captured.lines import CapturedRequest, RecordedAnswer
from servable.golden.command import GoldenSelection, explain_unsuitable, golden
from servable_tensors import wire
from servable_tensors.codecs import CODECS, CSV, JSON, NPY, NPZ, PROTOBUF
from servable_tensors.npy import to_npy
from servable_tensors.predict_messages import serialize_model_spec, serialize_predict_request
from tests.conftest import VALID
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


LEAST, GREATEST, LONGEST = rows(-9.0), rows(9.0), rows(1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    "special",
    [
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
        asked(
            serialize_predict_request(
                serialize_model_spec("", None, "regress"), {"x": np.ones((1, 2))}
            ),
            PROTOBUF,
        ),
    ],
    ids=[
        "least", "greatest", "most rows", "columns", "a signature", "a shape", "an input", "strings",
        "CSV", "an array", "protobuf",
    ],
)  # fmt: skip
def test_what_only_one_of_many_requests_holds_is_covered(special: CapturedRequest) -> None:
    ordinary = [rows(number / 10) for number in range(50)]
    assert special in chosen(*ordinary[:25], special, *ordinary[25:])


def test_requests_of_one_kind_are_few_and_those_first_that_cover_most() -> None:
    assert len(chosen(*(rows(number / 10) for number in range(200)))) <= 3
    everything = asked({"inputs": {"x": [[-99.0, 99.0]] * 9}})
    assert chosen(*(rows(number / 10) for number in range(20)), everything, most=1) == [everything]


@pytest.mark.parametrize(
    ("captured", "reason"),
    [
        (asked({}, answer=None), "without a successful response"),
        (asked({}, answer=dataclasses.replace(ANSWER, status=500)), "without a successful response"),
        (asked(b"", NPZ), "of content type application/x-npz"),
        (asked({}, custom_attributes="tfs-model-name=b"), "with custom attributes"),
        (asked({}, answer=dataclasses.replace(ANSWER, content_type=NPY)), "a response in application/x-npy"),
    ],
)  # fmt: skip
def test_what_golden_requests_cannot_hold_is_left_out(
    captured: CapturedRequest, reason: str
) -> None:
    assert reason in str(explain_unsuitable(captured))


@pytest.fixture
def ran(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose golden requests were written."""
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(VALID)
    written(project / "captured" / "x.jsonl", LEAST, GREATEST)
    monkeypatch.chdir(project)
    options = ["prod", "--from-captured", "captured", "--write"]
    assert CliRunner().invoke(golden, options, standalone_mode=False).return_value == 0
    return project


def test_the_written_file_loads_and_writing_again_replaces_its_tables(ran: Path) -> None:
    (loaded,) = load(ran, ran / "environments")
    assert isinstance(loaded, ValidFile), loaded.findings
    several = loaded.environment.models["ranker"].golden_requests.values()
    kept = {
        (ran / one.request).read_bytes(): (ran / str(one.answer)).read_bytes() for one in several
    }
    assert kept == {LEAST.body: ANSWER.body, GREATEST.body: ANSWER.body}
    text = (ran / "environments" / "prod.toml").read_text()
    assert text.count("\n\n[variants.primary]\n") == 1

    options = ["prod", "--from-captured", "captured", "--write", "--most", "1"]
    CliRunner().invoke(golden, options, standalone_mode=False)
    (loaded,) = load(ran, ran / "environments")
    assert isinstance(loaded, ValidFile)
    assert len(loaded.environment.models["ranker"].also_golden) == 1


@pytest.mark.parametrize(
    ("captured", "code", "verdict"),
    [(LEAST, 0, "holds"), (asked({}, answer=None), 1, "does not hold")],
)
def test_json_says_whether_one_can_be_golden(
    ran: Path, captured: CapturedRequest, code: int, verdict: str
) -> None:
    written(ran / "others" / "x.jsonl", captured)
    options = ["prod", "--from-captured", "others", "--json"]
    answer = CliRunner().invoke(golden, options, standalone_mode=False)
    assert (answer.return_value, json.loads(answer.stdout)["verdict"]) == (code, verdict)


def test_numbers_of_golden_answers_are_compared_within_the_tolerance() -> None:
    for off, count in [(1e-6, 0), (1e-2, 1)]:
        before, after = (
            CODECS[PROTOBUF].encode_response(
                {"p": np.array([value], "<f4")}, rows=False, model_spec=wire.ModelSpec
            )
            for value in (0.5, 0.5 + off)
        )
        assert len(list(find_differences(before, after, 1e-4))) == count
    assert list(find_differences(b"0.5,1\n0.6,2\n", b"0.5,1\n0.60001,2\n", 1e-4, CSV)) == []
    assert list(find_differences(b"0.5,1\n0.6,2\n", b"0.5,1\n0.7,2\n", 1e-4, CSV)) == [
        ("output[1][0]", 0.6, 0.7)
    ]


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("wanted", "actual", "found"),
    [
        ({"predictions": [[0.1, 0.2], [0.3, 0.4]]}, {"predictions": [[0.1, 0.2], [0.3, 0.5]]},
         ("output[1][1]", 0.4, 0.5)),
        ({"predictions": [{"label": "a"}]}, {"predictions": [{"label": "b"}]}, ("label[0]", "a", "b")),
        ({"outputs": {"a": [1]}}, {"outputs": {}}, ("a", "an output", "none")),
        ({"predictions": [[1, 2]]}, {"predictions": [[1]]}, ("output", "int64 [1, 2]", "int64 [1, 1]")),
    ],
)  # fmt: skip
def test_the_first_element_that_differs_is_named_with_both_values(
    wanted: object, actual: object, found: tuple[object, ...]
) -> None:
    assert next(find_differences(as_json(wanted), as_json(actual), 1e-4)) == found
