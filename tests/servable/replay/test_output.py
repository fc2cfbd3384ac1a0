"""What a replay says of itself: the announcement, the progress, the estimate, and the result."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

from servable.captured.lines import RecordedAnswer
from servable.console import lines as console
from servable.console.lines import SILENT_SECONDS, format_duration, show_progress_line
from servable.replay import run as output
from servable.replay.answers import AnswerPair, ReplayResult, ReplaySummary
from servable.replay.index import CaptureIndex
from servable.replay.places import SHOWN, LocalPlace, SkippedLines, format_skipped
from servable.replay.run import ReplayPace, describe_plan, show_progress
from tests.servable.replay.captures import NINE, request, written

OK = AnswerPair(
    request=request(),
    answered=RecordedAnswer(body=b"", content_type="a/b", status=200, latency_ms=20),
    send_lag_ms=1,
)
LATE = AnswerPair(
    request=request(),
    answered=RecordedAnswer(body=b"", content_type="", error="timeout"),
    send_lag_ms=1,
)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> CaptureIndex:
    """Ten requests in ninety seconds."""
    folder = tmp_path_factory.mktemp("captured")
    captured = [request(number, time=NINE + 10 * number + 0.25) for number in range(10)]
    written(folder / "x.jsonl", *captured)
    return CaptureIndex(LocalPlace(folder))


def test_a_replay_is_announced_with_its_duration(index: CaptureIndex) -> None:
    words = [format_duration(seconds) for seconds in (59.4, 59.6, 3599, 3600, 90_000)]
    assert words == ["59 s", "1 min 0 s", "59 min 59 s", "1 h 0 min", "25 h 0 min"]
    cases: list[tuple[ReplayPace, str]] = [
        (ReplayPace(), "at the captured rate: 1 min 30 s"),
        (ReplayPace(as_fast=True), "as fast as responses arrive, 32 at once"),
        (
            ReplayPace(as_fast=True, objective_ms=80),
            "as fast as responses arrive, while p99 is within 80 ms",
        ),
    ]
    for pace, text in cases:
        assert describe_plan(index, pace) == (
            f"10 requests from 2026-11-21 09:00:00 UTC to 2026-11-21 09:01:30 UTC, {text}; "
            "Ctrl-C keeps the responses so far"
        )


@dataclass
class Clock:
    now: float = 100.0
    waits: list[float] = field(default_factory=list)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (output, console):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_the_estimate_is_the_captured_time_that_is_left_or_by_the_rate(
    index: CaptureIndex, clock: Clock
) -> None:
    # (as fast, answered before, answered, captured moment, seconds before and after it, the line)
    cases: list[tuple[bool, int, int, float, int, int, str]] = [
        # 60 captured seconds are left, and 5 of them are over.
        (False, 0, 4, 30.25, 20, 5, "4 of 10 done, 0 failed; 0 requests/s; about 55 s left"),
        (False, 0, 10, 90.25, 0, 5, "10 of 10 done, 0 failed; 2 requests/s; about 0 s left"),
        (True, 0, 4, 0, 0, 2, "4 of 10 done, 0 failed; 2 requests/s; about 3 s left"),
        (True, 6, 2, 0, 0, 2, "8 of 10 done, 0 failed; 1 requests/s; about 2 s left"),
        (True, 0, 0, 0, 0, 2, "0 of 10 done, 0 failed; 0 requests/s; about 0 s left"),
    ]
    for as_fast, earlier, count, moment, before, after, line in cases:
        summary, tick = ReplaySummary(), output._Ticker(index, ReplayPace(as_fast=as_fast))
        summary.answered = earlier
        clock.now += before
        for _ in range(count):
            summary.add(OK)
            tick.record_response(summary, NINE + moment)
        clock.now += after
        assert tick.format_text() == line

    summary, tick = ReplaySummary(), output._Ticker(index, ReplayPace())
    summary.add(LATE)
    tick.record_response(summary, NINE)
    clock.now += 1
    assert tick.format_text().startswith("1 of 10 done, 1 failed; ")


def test_without_a_terminal_lines_are_few(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress_line() as show:
        for step in range(5):
            show(lambda step=step: f"line {step}")  # type: ignore[misc]
            clock.now += SILENT_SECONDS / 2
    captured = capsys.readouterr()
    assert (captured.err.splitlines(), captured.out) == (["line 2", "line 4"], "")

    def text() -> str:
        raise AssertionError("it was made")

    with show_progress_line() as show:
        show(text)


def test_the_progress_is_shown_in_the_gaps_between_answers_too(
    index: CaptureIndex, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "REFRESH_SECONDS", 0.005)
    monkeypatch.setattr(console, "SILENT_SECONDS", 0.0)
    lines: list[str] = []
    with show_progress(index, ReplayPace()) as tick:
        summary = ReplaySummary()
        summary.add(OK)
        tick(summary, NINE)
        deadline = time.monotonic() + 20
        while not any(text.startswith("1 of 10") for text in lines) and time.monotonic() < deadline:
            time.sleep(0.005)
            lines += capsys.readouterr().err.splitlines()
    assert any(text.startswith("1 of 10 done") for text in lines)


# --- the result


def result(index: CaptureIndex, *replayed: AnswerPair) -> ReplayResult:
    summary = ReplaySummary()
    for pair in replayed:
        summary.add(pair)
    return ReplayResult(
        folder=Path("runs/a"), index=index, summary=summary, seconds=1.23456, interrupted=False
    )


def test_the_result_is_json_or_lines_and_names_as_many_files_as_a_screen_shows(
    tmp_path: Path,
) -> None:
    file = written(tmp_path / "x.jsonl", request(0), request(1))
    file.write_bytes(file.read_bytes() + b"{}\n{}\n")
    skipping = CaptureIndex(LocalPlace(tmp_path))
    found = result(skipping, OK, LATE).as_object()
    assert found.pop("latency_ms")["max"] == 20
    assert found.pop("send_lag_ms")["p99"] == pytest.approx(1, rel=0.03)
    assert found == {
        "folder": "runs/a",
        "requests": 2,
        "answered": 2,
        "interrupted": False,
        "seconds": 1.235,
        "failures": {"timeout": 1},
        "lines_read": 4,
        "skipped": [
            {
                "file": str(tmp_path / "x.jsonl"),
                "reason": "it isn't a data capture record",
                "lines": 2,
                "first_line": 3,
            }
        ],
    }

    answered, failed, latency, folder = result(skipping, OK, LATE, LATE).format_lines()
    assert (answered, failed) == ("3 of 2 requests got a response", "2 failed: timeout")
    assert latency.endswith(" ms; sent late p50 1.0 ms, p99 1.0 ms")
    assert folder == "runs/a: requests and responses, readable only by you"
    found = result(skipping, LATE)
    assert (found.as_object()["latency_ms"], len(found.format_lines())) == (None, 3)

    for count, more in ((SHOWN, []), (SHOWN + 3, ["and 3 more; --json lists all"])):
        skipped = SkippedLines()
        for number in range(count):
            skipped.add(f"file {number:02}", 0, "it is odd")
        shown = [f"file {number:02}: skipped: it is odd" for number in range(SHOWN)]
        assert format_skipped(skipped.counts) == shown + more
