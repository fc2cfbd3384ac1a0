"""Which captured requests are sent, in which order, and what is named as skipped."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from servable.captured.lines import CapturedRequest, format_line
from servable.replay import places
from servable.replay.index import CaptureIndex, list_capture_notes, spread_times
from servable.replay.places import LocalPlace, PlaceError, S3Place, split_lines
from tests.servable.replay.captures import NINE, Objects, request, written


def index(folder: Path) -> CaptureIndex:
    return CaptureIndex(LocalPlace(folder))


def ids(found: CaptureIndex) -> list[str]:
    return [captured.event_id for captured in found]


def test_a_folder_or_prefix_is_merged_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path  # with two variants in two hours, out of order inside of their files
    for variant, first in (("a", 0), ("b", 1)):
        for number, hour in enumerate(("09", "10")):
            times = [3600 * number + first + 2 * step for step in (2, 0, 1)]
            captured = [request(time, time=NINE + time + 0.5) for time in times]
            written(folder / "ep" / variant / "2026/11/21" / hour / "x.jsonl", *captured)
    order = [*range(6), *range(3600, 3606)]
    assert ids(index(folder)) == [f"event-{number}" for number in order]

    contents = {str(x.relative_to(folder)): x.read_bytes() for x in folder.rglob("*.jsonl")}
    monkeypatch.setattr(places, "_PART_BYTES", 500)  # a line is longer
    monkeypatch.setattr(places, "_MOST_PARTS", 3)
    there = CaptureIndex(S3Place("s3://bucket/ep/", Objects(contents)))

    def content(captured: CapturedRequest) -> tuple[str, bytes, float, str | None]:
        return captured.event_id, captured.body, captured.time, captured.variant

    assert [content(one) for one in there] == [content(one) for one in index(folder)]


def test_requests_of_one_second_keep_their_order_and_are_spread(tmp_path: Path) -> None:
    seconds = (1, 0, 1, 0)
    for name, first in (("a", 0), ("b", 4)):
        captured = [
            request(first + line, time=NINE + second) for line, second in enumerate(seconds)
        ]
        written(tmp_path / f"{name}.jsonl", *captured)
    written(tmp_path / "c.jsonl", request(8, time=NINE + 0.25))
    assert ids(index(tmp_path)) == [f"event-{number}" for number in (1, 8, 3, 5, 7, 0, 2, 4, 6)]
    times = np.array([5.0, 5.0, 5.0, 5.0, 6.25, 7.0])
    assert spread_times(times).tolist() == [5.125, 5.375, 5.625, 5.875, 6.25, 7.5]


def test_damaged_lines_are_named_by_their_reason_and_the_others_are_read(tmp_path: Path) -> None:
    file = written(tmp_path / "x.jsonl", request(0))
    file.write_bytes(b"{}\n" + file.read_bytes() + format_line(request(1))[:-5])
    found = index(tmp_path)
    assert [str(skipped) for skipped in found.skip_counts] == [
        f"{file}, line 1: skipped: it isn't a data capture record",
        f"{file}, line 3: skipped: it is truncated",
    ]
    assert ids(found) == ["event-0"]

    file = tmp_path / "x.jsonl"
    file.write_bytes(b"\n\xff\xfe\n" * 1200)
    reports: list[tuple[int, int]] = []
    (skipped,) = CaptureIndex(LocalPlace(file), lambda *read: reports.append(read)).skip_counts
    assert reports == [(3997, 4800), (4800, 4800)]
    assert str(skipped) == f"{file}: 1,200 lines skipped, the first is 2: it is not JSON"


def test_lines_and_files_that_are_no_requests_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (skipped,) = index(tmp_path).skip_counts
    assert str(skipped).endswith("x.parquet: skipped: its name does not end in .jsonl")
    with pytest.raises(PlaceError, match="no such file or folder"):
        index(tmp_path / "nothing")

    file = written(tmp_path / "x.jsonl", request(0))
    found = index(tmp_path)
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(PlaceError, match="line 1: the file has changed"):
        found.read_request(0)


def test_a_line_longer_than_any_record_and_an_unreadable_file_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = written(tmp_path / "a.jsonl", request(0))
    written(tmp_path / "b.jsonl", request(1))
    chunks = LocalPlace.iterate_chunks

    def reading(place: LocalPlace, file: places.CaptureFile) -> Iterator[bytes]:
        if file.name == str(refused):
            raise places.UnreadableFileError(f"{refused}: cannot be read: Permission denied")
        return chunks(place, file)

    monkeypatch.setattr(LocalPlace, "iterate_chunks", reading)
    found = index(tmp_path)
    assert [str(skipped) for skipped in found.skip_counts] == [
        f"{refused}: skipped: cannot be read: Permission denied"
    ]
    assert ids(found) == ["event-1"]

    monkeypatch.setattr(places, "MOST_LINE_BYTES", 10)
    chunks = [b"ab\n", b"x" * 8, b"x" * 8, b"x\ncd", b"\n", b"e"]
    lines = [(1, 0, b"ab\n"), (2, 3, None), (3, 21, b"cd\n"), (4, 24, b"e")]
    assert list(split_lines(iter(chunks))) == lines


def notes(folder: Path, shadows: set[str]) -> list[str]:
    return [*list_capture_notes(CaptureIndex(LocalPlace(folder)), shadows)]


def test_requests_of_a_shadow_variant_are_said_to_repeat_others(tmp_path: Path) -> None:
    for name, count in (("primary", 3), ("next", 2)):
        file = tmp_path / "ranker" / name / "2026" / "11" / "21" / "09" / "a.jsonl"
        written(file, *(request(number) for number in range(count)))
    counted, repeated = notes(tmp_path, {"next", "other"})
    assert counted == "captured by variant: primary 3, next 2"
    assert repeated.startswith("variant next is a shadow, so its 2 requests repeat those")


def test_only_a_gap_that_traffic_does_not_explain_is_named(tmp_path: Path) -> None:
    times = [*range(0, 300, 3), *range(3600, 3900, 3)]
    several = [request(number, time=NINE + time + 0.5) for number, time in enumerate(times)]
    written(tmp_path / "a.jsonl", *several)
    (note,) = notes(tmp_path, set())
    assert note.startswith("nothing was captured in the 55 minutes from 2026-11-21 09:04:57 UTC")

    several = [request(number, time=NINE + 900.0 * number + 0.5) for number in range(50)]
    written(tmp_path / "a.jsonl", *several)
    assert notes(tmp_path, set()) == []
