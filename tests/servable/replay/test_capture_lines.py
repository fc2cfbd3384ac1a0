"""Lines of data capture: every documented form is read, every other one is refused with a reason."""

import json
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from servable.captured.lines import (
    CapturedRequest,
    CaptureLineError,
    RecordedAnswer,
    format_line,
    read_line,
)
from tests.servable.replay.captures import NINE, REQUEST

FILE = "s3://captured/prefix/ranker-prod/primary/2026/11/21/09/00-01-1.jsonl"
INPUT = {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2\n", "encoding": "CSV"}
OUTPUT = {
    "observedContentType": "text/csv; charset=utf-8",
    "mode": "OUTPUT",
    "data": "0.5",
    "encoding": "CSV",
}
METADATA = {"eventId": "aaaaaaaa-bbbb", "inferenceTime": "2026-11-21T09:00:00Z"}
TYPES = st.sampled_from(
    ["application/json", "application/jsonlines", "text/csv", "text/csv; charset=utf-8", "image/x"]
)
TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=20)
ANSWERS = st.builds(
    RecordedAnswer,
    body=st.binary(max_size=40),
    content_type=TYPES,
    status=st.one_of(st.none(), st.integers(200, 599)),
    latency_ms=st.one_of(st.none(), st.floats(0, 1e5)),
)
REQUESTS = st.builds(
    CapturedRequest,
    event_id=TEXTS,
    time=st.integers(0, 4 * 10**9).map(float),
    content_type=TYPES,
    body=st.one_of(st.binary(max_size=40), st.text(max_size=40).map(lambda text: text.encode())),
    accept=st.one_of(st.none(), TYPES),
    custom_attributes=st.one_of(st.none(), TEXTS),
    inference_id=st.one_of(st.none(), TEXTS),
    variant=st.one_of(st.none(), st.just("primary")),
    target_model=st.one_of(st.none(), TEXTS),
    answer=st.one_of(st.none(), ANSWERS),
    file=st.just("here.jsonl"),
    line=st.just(3),
)  # fmt: skip


def record(**changed: Any) -> dict[str, Any]:
    data = {"endpointInput": INPUT, "endpointOutput": OUTPUT}
    return {"captureData": data, "eventMetadata": METADATA, "eventVersion": "0"} | changed


def sent(**changed: str) -> dict[str, Any]:
    return record(captureData={"endpointInput": INPUT | changed})


def read(content: Any, file: str = FILE) -> CapturedRequest:
    return read_line(json.dumps(content).encode() + b"\n", file=file, number=7)


@pytest.mark.long
@settings(max_examples=60)
@given(REQUESTS)
def test_what_is_written_is_read_again(request: CapturedRequest) -> None:
    again = read_line(format_line(request), file="here.jsonl", number=3)
    same = {name: getattr(again, name) for name in CapturedRequest.__slots__}
    assert same == {name: getattr(request, name) for name in same}


@pytest.mark.parametrize(
    ("content", "body", "answer"),
    [
        (record(), b"1,2\n", b"0.5"),
        (sent(), b"1,2\n", None),
        (record(captureData={"endpointInput": INPUT, "endpointOutput": None}), b"1,2\n", None),
        (
            sent(observedContentType="application/json", data='{"instances": [1.0]}', encoding="JSON"),
            b'{"instances": [1.0]}', None,
        ),
        (
            sent(observedContentType="application/x-npy", data="k05VTVBZ", encoding="BASE64"),
            b"\x93NUMPY", None,
        ),
    ],
    ids=["both directions", "Input alone", "no output", "JSON", "BASE64"],
)  # fmt: skip
def test_every_documented_form_is_read(content: Any, body: bytes, answer: bytes | None) -> None:
    request = read(content)
    assert (request.body, request.answer and request.answer.body) == (body, answer)


def test_metadata_is_read() -> None:
    cases: list[tuple[dict[str, Any], str, Any]] = [
        ({}, "time", NINE),
        ({"inferenceTime": "2026-11-21T09:00:00.250Z"}, "time", NINE + 0.25),
        ({"inferenceTime": "2026-11-21T10:00:00+01:00"}, "time", NINE),
        ({"inferenceTime": "2026-11-21T09:00:00"}, "time", NINE),
        ({"customAttributes": ["tier=gold", "n=1"]}, "custom_attributes", "tier=gold,n=1"),
        ({"customAttributes": "tier=gold"}, "custom_attributes", "tier=gold"),
        ({}, "accept", "text/csv"),
        ({"accept": None}, "accept", None),
        ({"accept": "application/x-npy"}, "accept", "application/x-npy"),
        ({}, "variant", "primary"),
        ({}, "event_id", "aaaaaaaa-bbbb"),
        ({"eventId": None, "inferenceId": "mine"}, "event_id", "mine"),
        ({"targetModel": "a"}, "target_model", "a"),
    ]
    for metadata, name, value in cases:
        assert getattr(read(record(eventMetadata=METADATA | metadata)), name) == value
    html = OUTPUT | {"observedContentType": "text/html; charset=utf-8"}
    assert read(record(captureData={"endpointInput": INPUT, "endpointOutput": html})).accept is None


def test_a_foreign_line_is_refused_with_its_reason() -> None:
    cases: list[tuple[Any, str]] = [
        (record(captureData={"endpointOutput": OUTPUT}), "capture Input too"),
        (sent(encoding="GZIP"), "encoding is not CSV"),
        (sent(encoding="BASE64"), "is not BASE64"),
        (sent(data="\ud800"), "is not text"),
        (sent(observedContentType="a\r\nb: c"), "ASCII"),
        (record(eventMetadata={"eventId": "a"}), "isn't a data capture record"),
        (record(eventMetadata=METADATA | {"inferenceTime": "yesterday"}), "isn't a time"),
        ([{"prefix": "s3://a/"}, "batch.csv"], "manifest of a batch transform job"),
        ({"groundTruthData": {}}, "isn't a data capture record"),
        (None, "isn't a data capture record"),
    ]
    for content, reason in cases:
        with pytest.raises(CaptureLineError, match=reason):
            read(content)
    with pytest.raises(CaptureLineError, match="it is truncated"):
        read_line(format_line(REQUEST)[:-9], file=FILE, number=1)


@given(st.data())
def test_a_damaged_line_is_read_or_refused_and_nothing_else(data: st.DataObject) -> None:
    line = bytearray(format_line(REQUEST))
    for _ in range(data.draw(st.integers(1, 4))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_line(bytes(line), file=FILE, number=1)
    except CaptureLineError:
        pass


JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from([*record(), *METADATA, *INPUT, "endpointInput", "accept"]),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=10,
)


@pytest.mark.long
@settings(max_examples=60)
@given(JSONS)
def test_any_json_in_a_record_is_read_or_refused_and_nothing_else(content: Any) -> None:
    for name in ("captureData", "eventMetadata"):
        try:
            read(record(**{name: content}))
        except CaptureLineError:
            pass
