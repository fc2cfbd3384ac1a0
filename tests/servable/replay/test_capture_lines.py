"""Lines of data capture: documented forms are read, all others skipped by name with a reason, none lost."""

import base64
import json
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given, settings

from servable.captured.lines import (
    CapturedRequest,
    CaptureLineError,
    RecordedAnswer,
    build_line_id,
    format_line,
    read_line,
)
from servable.rehearse.command import count_captured_requests
from servable.replay.answers import AnswerLog, AnswerPair, read_pairs
from servable.replay.index import CaptureIndex
from servable.replay.places import LocalPlace, SkippedLines
from servable.replay.run import remove_identity
from tests.servable.replay.captures import NINE, REQUEST, request

FILE = "s3://captured/prefix/ranker-prod/primary/2026/11/21/09/00-01-1.jsonl"
INPUT = {"observedContentType": "text/csv", "mode": "INPUT", "data": "1,2\n", "encoding": "CSV"}
OUTPUT = INPUT | {
    "observedContentType": "text/csv; charset=utf-8", "mode": "OUTPUT", "data": "0.5"
}  # fmt: skip
METADATA = {"eventId": "aaaaaaaa-bbbb", "inferenceTime": "2026-11-21T09:00:00Z"}


def record(**changed: Any) -> dict[str, Any]:
    data = {"endpointInput": INPUT, "endpointOutput": OUTPUT}
    return {"captureData": data, "eventMetadata": METADATA, "eventVersion": "0"} | changed


def sent(**changed: Any) -> dict[str, Any]:
    return record(captureData={"endpointInput": INPUT | changed})


def line(content: Any) -> bytes:
    return json.dumps(content).encode()


def read(content: Any, file: str = FILE) -> CapturedRequest:
    return read_line(line(content) + b"\n", file=file, number=7)


def test_every_documented_form_is_read() -> None:
    cases: list[tuple[Any, bytes, bytes | None]] = [
        (record(), b"1,2\n", b"0.5"),
        (sent(), b"1,2\n", None),
        (record(captureData={"endpointInput": INPUT, "endpointOutput": None}), b"1,2\n", None),
        (sent(observedContentType="application/json", data="[1]", encoding="JSON"), b"[1]", None),
        (sent(observedContentType="image/x", data="k05VTVBZ", encoding="BASE64"), b"\x93NUMPY", None),
    ]  # fmt: skip
    for content, body, answer in cases:
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
    with suppress(CaptureLineError):
        read_line(bytes(line), file=FILE, number=1)


KEYS = st.sampled_from([*record(), *METADATA, *INPUT, "endpointInput", "accept"])
JSONS = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=10,
)


@pytest.mark.long
@settings(max_examples=60)
@given(JSONS)
def test_any_json_in_a_record_is_read_or_refused_and_nothing_else(content: Any) -> None:
    for name in ("captureData", "eventMetadata"):
        with suppress(CaptureLineError):
            read(record(**{name: content}))


# --- recordings that are hostile or odd: each line is skipped before anything is sent

GOOD = format_line(request(1)) + b"\n"
ESCAPES = "\x1b]0;owned\x07\x1b[45m\r\x9b2J\x7f"


def metadata(**changed: Any) -> bytes:
    return line(record(eventMetadata=METADATA | changed))


def answered(**changed: Any) -> bytes:
    return line(record(captureData={"endpointInput": INPUT, "endpointOutput": OUTPUT | changed}))


def raw(old: bytes, new: bytes) -> bytes:
    """A good line with other bytes in it: what json.dumps does not write."""
    text = metadata(latencyMs=1, statusCode=200)
    assert old in text
    return text.replace(old, new)


# Rehearsals count requests by their time alone, which these have.
TIMED: dict[str, bytes] = {
    # numbers
    "latency NaN": metadata(latencyMs=float("nan")),
    "latency infinite": metadata(latencyMs=float("inf")),
    "latency -infinite": metadata(latencyMs=float("-inf")),
    "latency of 401 digits": metadata(latencyMs=10**400),
    "latency 1e999": raw(b'"latencyMs": 1', b'"latencyMs": 1e999'),
    "latency below 0": metadata(latencyMs=-1),
    "latency of a year": metadata(latencyMs=3.2e10),
    "latency a truth value": metadata(latencyMs=True),
    "latency a text": metadata(latencyMs="1"),
    "latency a list": metadata(latencyMs=[1]),
    "status NaN": metadata(statusCode=float("nan")),
    "status of 401 digits": metadata(statusCode=10**400),
    "status below 0": metadata(statusCode=-200),
    "status above 599": metadata(statusCode=600),
    "status a text": metadata(statusCode="200"),
    "status a truth value": metadata(statusCode=True),
    "status an object": metadata(statusCode={}),
    # texts
    "event id a surrogate": metadata(eventId="\ud800"),
    "event id of escapes": metadata(eventId=ESCAPES),
    "event id of two lines": metadata(eventId="a\ngate: met"),
    "event id of a megabyte": metadata(eventId="a" * 10**6),
    "event id a list": metadata(eventId=["a"]),
    "event id of 401 digits": metadata(eventId=10**400),
    "inference id of escapes": metadata(eventId=None, inferenceId=ESCAPES),
    "inference id an object": metadata(inferenceId={"a": 1}),
    "variant an object": metadata(variant={"a": 1}),
    "variant of escapes": metadata(variant=ESCAPES),
    "model of a line break": metadata(targetModel="a\r\nb"),
    "model a number": metadata(targetModel=7),
    "accept of a line break": metadata(accept="a\r\nX-Other: b"),
    "accept a list": metadata(accept=["a/b"]),
    "custom attributes of a megabyte": metadata(customAttributes="a" * 10**6),
    "custom attributes an object": metadata(customAttributes={"a": "b"}),
    "custom attributes of objects": metadata(customAttributes=[{}]),
    "content type of a line break": line(sent(observedContentType="a\r\nb: c")),
    "content type of a megabyte": line(sent(observedContentType="a" * 10**6)),
    "content type an object": line(sent(observedContentType={})),
    "answered content type of escapes": answered(observedContentType=ESCAPES),
    # bodies
    "data a surrogate": line(sent(data="\ud800")),
    "data an object": line(sent(data={})),
    "data null": line(sent(data=None)),
    "answered data a number": answered(data=1),
    "BASE64 of other letters": line(sent(encoding="BASE64", data="é" * 8)),
    "encoding a list": line(sent(encoding=["CSV"])),
    "encoding of escapes": line(sent(encoding=ESCAPES)),
    "input a list": line(record(captureData={"endpointInput": [INPUT]})),
    "input a text": line(record(captureData={"endpointInput": "endpointInput"})),
    "data of a record null": line(record(captureData=None)),
}  # fmt: skip
HOSTILE = TIMED | {
    # times
    "year 0": metadata(inferenceTime="0000-01-01T00:00:00Z"),
    "year 1 in the east": metadata(inferenceTime="0001-01-01T00:00:00+23:59"),
    "year 1": metadata(inferenceTime="0001-01-01T00:00:00Z"),
    "year 1969": metadata(inferenceTime="1969-12-31T23:59:59Z"),
    "year 9999 in the west": metadata(inferenceTime="9999-12-31T23:59:59-23:59"),
    "year 10000": metadata(inferenceTime="10000-01-01T00:00:00Z"),
    "month 13": metadata(inferenceTime="2026-13-01T00:00:00Z"),
    "time empty": metadata(inferenceTime=""),
    "time a number": metadata(inferenceTime=1795251600),
    "time null": metadata(inferenceTime=None),
    "time a surrogate": metadata(inferenceTime="\ud800"),
    "time of escapes": metadata(inferenceTime=ESCAPES),
    "time with an escape before its hour": metadata(inferenceTime="2026-11-21\x1b09:00:00Z"),
    "time with a surrogate before its hour": metadata(inferenceTime="2026-11-21\ud80009:00:00Z"),
    "time with a NUL at its end": metadata(inferenceTime="2026-11-21T09:00:00Z\0"),
    # forms
    "metadata a list": line(record(eventMetadata=[METADATA])),
    "latency of 5,000 digits": raw(b'"latencyMs": 1', b'"latencyMs": 1' + b"0" * 5000),
    "a record twice": raw(b"{", b'{"eventVersion": "1", '),
    "a latency twice": raw(b'"latencyMs": 1', b'"latencyMs": 1, "latencyMs": 2'),
    "nested deeply": b"[" * 100_000 + b"]" * 100_000,
    "objects nested deeply": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "no UTF-8": b'{"captureData": "\xff\xfe"}',
    "UTF-16": json.dumps(record()).encode("utf-16-le"),
    "zeros": b"\0" * 1000,
    "a number of 5,000 digits": b"9" * 5000,
    "a text": b'"captureData eventMetadata"',
    "true": b"true",
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_skipped_by_name_without_its_text(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD + HOSTILE[name] + b"\n" + GOOD)
    place = LocalPlace(tmp_path / "a.jsonl")
    index = CaptureIndex(place)
    (skipped,) = index.skip_counts
    assert str(skipped).partition(": skipped: ")[0] == f"{tmp_path / 'a.jsonl'}, line 2"
    assert len(list(index)) == 2
    assert (len(skipped.reason) < 100, skipped.reason.isprintable()) == (True, True)

    # A rehearsal skips only a line without a time.
    of_rehearsal = SkippedLines()
    counts = count_captured_requests(place, "a.jsonl", of_rehearsal, variant="primary")
    assert (sum(counts), len(of_rehearsal.counts)) == ((3, 0) if name in TIMED else (2, 1))


ODD_FILE = "é\n.jsonl"
TEXTS = st.none() | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
TEXT_KEYS = ("eventId", "inferenceId", "variant", "targetModel", "accept", "customAttributes")
KNOWN: dict[str, st.SearchStrategy[Any]] = {
    "latencyMs": st.floats(0, 1e5),
    "statusCode": st.integers(200, 599),
}
KNOWN |= dict.fromkeys(TEXT_KEYS, TEXTS)
TIMED_METADATA = st.fixed_dictionaries(
    {"inferenceTime": st.datetimes(datetime(1970, 1, 2)).map(datetime.isoformat)}, optional=KNOWN
)
ODD = st.one_of(
    JSONS, st.text(max_size=5), st.integers(-(10**9), 10**9), st.sampled_from([10**400, ESCAPES])
)
ODD_METADATA = st.dictionaries(st.sampled_from(list(KNOWN)), ODD, max_size=1)
TYPES = st.sampled_from(["application/json", "text/csv", "text/csv; charset=utf-8", "image/x"])


def part(encodings: list[str], data: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, str]]:
    names = {"observedContentType": TYPES, "encoding": st.sampled_from(encodings), "data": data}
    return st.fixed_dictionaries(names)


PARTS = part(["CSV", "JSON"], st.text(max_size=40)) | part(
    ["BASE64"], st.binary(max_size=40).map(base64.b64encode).map(bytes.decode)
)
DATA = st.fixed_dictionaries({"endpointInput": PARTS}, optional={"endpointOutput": PARTS})


@pytest.mark.long
@example({"endpointInput": INPUT}, METADATA | dict.fromkeys(TEXT_KEYS, ""), {})
@settings(max_examples=100)
@given(DATA, TIMED_METADATA, ODD_METADATA)
def test_whatever_is_read_is_written_so_that_it_is_read_again(
    data: dict[str, Any], known: dict[str, Any], odd: dict[str, Any]
) -> None:
    try:
        before = read(record(captureData=data, eventMetadata=known | odd), ODD_FILE)
    except CaptureLineError:
        return
    assert read_line(format_line(before), file=before.file, number=before.line) == before


@pytest.mark.parametrize(
    "of_a_person",
    [
        {"inferenceId": "alice-7", "customAttributes": ["user=alice"]},
        {"eventId": None, "inferenceId": "alice-7", "customAttributes": ["user=alice"]},
        {"eventId": None, "inferenceId": "alice-7", "customAttributes": ["inferenceId=other"]},
    ],
)
def test_redaction_keeps_no_attribute_and_no_inference_id(of_a_person: dict[str, Any]) -> None:
    before = read(record(eventMetadata=METADATA | of_a_person), ODD_FILE)
    kept = remove_identity(before)
    assert b"alice" not in format_line(kept)
    assert remove_identity(kept) == kept
    own = (METADATA | of_a_person)["eventId"]
    assert kept.event_id == (own or build_line_id(before.file, before.line))


@pytest.mark.parametrize("name", ["a\ngate: met.jsonl", f"{ESCAPES}.jsonl", "\udcff.jsonl"])
def test_a_line_is_named_on_one_line_whatever_its_file_is_called(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"true\n" + format_line(request(1, event_id=None)) + b"\n")
    index = CaptureIndex(LocalPlace(tmp_path))
    (good,) = index
    said = (str(index.skip_counts[0]), good.location, good.event_id)
    assert all(map(str.isprintable, said))


def test_a_line_without_an_id_is_kept_and_read_again(tmp_path: Path) -> None:
    before = read(record(eventMetadata={"inferenceTime": METADATA["inferenceTime"]}), ODD_FILE)
    came = RecordedAnswer(body=b"{}", content_type="a/b", status=200)
    with AnswerLog(tmp_path) as log:
        log.append(AnswerPair(request=before, answered=came))
    assert [pair.request.line for pair in read_pairs(tmp_path)] == [7]
