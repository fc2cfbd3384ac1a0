"""Recordings that are hostile or odd: each line is skipped by name before anything is sent, none is lost."""

import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

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
from tests.servable.replay.captures import request
from tests.servable.replay.test_capture_lines import INPUT, JSONS, METADATA, OUTPUT, record

GOOD = format_line(request(1)) + b"\n"
ESCAPES = "\x1b]0;owned\x07\x1b[45m\r\x9b2J\x7f"


def line(content: Any) -> bytes:
    return json.dumps(content).encode()


def metadata(**changed: Any) -> bytes:
    return line(record(eventMetadata=METADATA | changed))


def sent(**changed: Any) -> bytes:
    return line(record(captureData={"endpointInput": INPUT | changed, "endpointOutput": OUTPUT}))


def answered(**changed: Any) -> bytes:
    return line(record(captureData={"endpointInput": INPUT, "endpointOutput": OUTPUT | changed}))


def raw(old: bytes, new: bytes) -> bytes:
    """A good line with other bytes in it: what json.dumps does not write."""
    text = metadata(latencyMs=1, statusCode=200)
    assert old in text
    return text.replace(old, new)


HOSTILE: dict[str, bytes] = {
    # numbers
    "latency NaN": metadata(latencyMs=float("nan")),
    "latency infinite": metadata(latencyMs=float("inf")),
    "latency -infinite": metadata(latencyMs=float("-inf")),
    "latency of 401 digits": metadata(latencyMs=10**400),
    "latency of 5,000 digits": raw(b'"latencyMs": 1', b'"latencyMs": 1' + b"0" * 5000),
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
    "content type of a line break": sent(observedContentType="a\r\nb: c"),
    "content type of a megabyte": sent(observedContentType="a" * 10**6),
    "content type an object": sent(observedContentType={}),
    "answered content type of escapes": answered(observedContentType=ESCAPES),
    # bodies
    "data a surrogate": sent(data="\ud800"),
    "data an object": sent(data={}),
    "data null": sent(data=None),
    "answered data a number": answered(data=1),
    "BASE64 of other letters": sent(encoding="BASE64", data="é" * 8),
    "encoding a list": sent(encoding=["CSV"]),
    "encoding of escapes": sent(encoding=ESCAPES),
    "input a list": line(record(captureData={"endpointInput": [INPUT]})),
    "input a text": line(record(captureData={"endpointInput": "endpointInput"})),
    # forms
    "metadata a list": line(record(eventMetadata=[METADATA])),
    "data of a record null": line(record(captureData=None)),
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
# Rehearsals count requests by their time alone; these have none, or are no JSON with each key once.
WITHOUT_TIME = {"year 0", "year 1 in the east", "year 1", "year 1969", "year 9999 in the west", "year 10000",
    "month 13", "time empty", "time a number", "time null", "time a surrogate", "time of escapes",
    "time with an escape before its hour", "time with a surrogate before its hour",
    "time with a NUL at its end", "latency of 5,000 digits",
    *list(HOSTILE)[list(HOSTILE).index("metadata a list"):],
    } - {"data of a record null"}  # fmt: skip


def place_with(folder: Path, name: str) -> LocalPlace:
    file = folder / "a.jsonl"
    file.write_bytes(GOOD + HOSTILE[name] + b"\n" + GOOD)
    return LocalPlace(file)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_skipped_by_name_without_its_text(tmp_path: Path, name: str) -> None:
    index = CaptureIndex(place_with(tmp_path, name))
    (skipped,) = index.skip_counts
    assert str(skipped).partition(": skipped: ")[0] == f"{tmp_path / 'a.jsonl'}, line 2"
    assert len(list(index)) == 2
    assert len(skipped.reason) < 100
    assert skipped.reason.isprintable()

    # A rehearsal skips only a line without a time.
    of_rehearsal = SkippedLines()
    counts = count_captured_requests(
        place_with(tmp_path, name), "a.jsonl", of_rehearsal, variant="primary"
    )
    assert (sum(counts), len(of_rehearsal.counts)) == ((2, 1) if name in WITHOUT_TIME else (3, 0))


def read(content: dict[str, Any]) -> CapturedRequest | None:
    try:
        return read_line(line(content) + b"\n", file="é\n.jsonl", number=7)
    except CaptureLineError:
        return None


TEXTS = st.one_of(st.none(), st.integers(), st.text(max_size=5), st.sampled_from([ESCAPES, "a=b"]))
NUMBERS = st.one_of(JSONS, st.floats(), st.integers(-(10**9), 10**9), st.just(10**400))
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat())
ODD = st.fixed_dictionaries(
    {"inferenceTime": MOMENTS},
    optional={
        "latencyMs": NUMBERS, "statusCode": NUMBERS, "eventId": TEXTS, "inferenceId": TEXTS,
        "variant": TEXTS, "targetModel": TEXTS, "accept": TEXTS, "customAttributes": TEXTS,
    },
)  # fmt: skip


@pytest.mark.long
@example({"inferenceTime": "2000-01-01T00:00:00", "variant": ""})
@settings(max_examples=150)
@given(ODD)
def test_whatever_is_read_is_kept_so_that_it_is_read_again(odd: dict[str, Any]) -> None:
    before = read(record(eventMetadata=odd))
    if before is not None:
        after = read_line(format_line(before) + b"\n", file=before.file, number=before.line)
        names = attrgetter("event_id", "answer", "body", "variant")
        assert names(after) == names(before)


OF_A_PERSON = {"customAttributes": ["user=alice"], "inferenceId": "alice-7"}


@pytest.mark.parametrize(
    "of_a_person",
    [
        OF_A_PERSON,
        OF_A_PERSON | {"eventId": None},
        {"eventId": None, "inferenceId": "alice-7", "customAttributes": ["inferenceId=other"]},
    ],
)
def test_redaction_keeps_no_attribute_and_no_inference_id(of_a_person: dict[str, Any]) -> None:
    before = read(record(eventMetadata=METADATA | of_a_person))
    assert before is not None
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
    assert all(
        text.isprintable() for text in (str(index.skip_counts[0]), good.location, good.event_id)
    )


def test_a_line_without_an_id_is_kept_and_read_again(tmp_path: Path) -> None:
    before = read(record(eventMetadata={"inferenceTime": METADATA["inferenceTime"]}))
    assert before is not None
    came = RecordedAnswer(body=b"{}", content_type="a/b", status=200)
    with AnswerLog(tmp_path) as log:
        log.append(AnswerPair(request=before, answered=came))
    assert [pair.request.line for pair in read_pairs(tmp_path)] == [7]
