"""What a replay says and keeps: the announcement, the progress, the result, the log of its answers."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from servable.captured.lines import RecordedAnswer
from servable.console import lines as console
from servable.console.lines import SILENT_SECONDS, format_duration, show_progress_line
from servable.replay import run as output
from servable.replay.answers import (
    ANSWERS,
    AnswerLog,
    AnswerPair,
    ReplayResult,
    ReplaySummary,
    read_pairs,
)
from servable.replay.index import CaptureIndex
from servable.replay.places import SHOWN, LocalPlace, SkippedLines, format_skipped
from servable.replay.run import ReplayPace, describe_plan, show_progress
from tests.servable.replay.captures import ANSWER, NINE, request, written
from tests.servable.replay.pairs import recorded

SILENT = recorded(b"", "", error="timeout")
ANSWERED = recorded(b"", "a/b", status=200, latency_ms=20)
OK = AnswerPair(request=request(), answered=ANSWERED, send_lag_ms=1)
LATE = AnswerPair(request=request(), answered=SILENT, send_lag_ms=1)


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
    fast, within = ReplayPace(as_fast=True), ReplayPace(as_fast=True, objective_ms=80)
    for pace, text in (
        (ReplayPace(), "at the captured rate: 1 min 30 s"),
        (fast, "as fast as responses arrive, 32 at once"),
        (within, "as fast as responses arrive, while p99 is within 80 ms"),
    ):
        assert describe_plan(index, pace) == (
            f"10 requests from 2026-11-21 09:00:00 UTC to 2026-11-21 09:01:30 UTC, {text}; "
            "Ctrl-C keeps the responses so far"
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=100.0)
    for module in (output, console):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_the_estimate_is_the_captured_time_that_is_left_or_by_the_rate(
    index: CaptureIndex, clock: SimpleNamespace
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


def test_without_a_terminal_lines_are_few(
    clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    with show_progress_line() as show:
        for step in range(5):
            show(lambda step=step: f"line {step}")  # type: ignore[misc]
            clock.now += SILENT_SECONDS / 2
    captured = capsys.readouterr()
    assert (captured.err.splitlines(), captured.out) == (["line 2", "line 4"], "")

    with show_progress_line() as show:
        show(lambda: pytest.fail("it was made"))


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
    why = "it isn't a data capture record"
    assert found == {
        "folder": "runs/a",
        "requests": 2,
        "answered": 2,
        "interrupted": False,
        "seconds": 1.235,
        "failures": {"timeout": 1},
        "lines_read": 4,
        "skipped": [{"file": str(file), "reason": why, "lines": 2, "first_line": 3}],
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


# --- what is kept, and what a kill leaves of it

CAME = recorded(b"\x00other", "a/b", status=200, latency_ms=1.5)
HERE = "captured/x.jsonl"


def replayed(number: int, **more: RecordedAnswer) -> AnswerPair:
    captured = request(number, file=HERE, line=number + 1, accept="a/b")
    return AnswerPair(request=captured, answered=CAME, send_lag_ms=0.25, **more)


def kept(folder: Path, *numbers: int) -> Path:
    with AnswerLog(folder) as log:
        for number in numbers:
            log.append(replayed(number))
    return folder / ANSWERS


def test_what_is_kept_is_private_and_read_again_with_another_targets_answer(tmp_path: Path) -> None:
    kept(tmp_path, 0)
    (pair,) = read_pairs(tmp_path)
    assert (pair.request.body, pair.expected_response) == (request(0).body, request(0).answer)
    assert (pair.answered, pair.send_lag_ms) == (CAME, 0.25)
    assert kept(tmp_path, 0).stat().st_mode & 0o777 == 0o600

    with AnswerLog(tmp_path / "of two") as log:
        log.append(replayed(0, other=SILENT))
    (pair,) = read_pairs(tmp_path / "of two")
    assert pair.expected_response == SILENT


@pytest.mark.parametrize("cut", [1, 200])
def test_a_line_that_a_kill_cut_off_is_answered_again(tmp_path: Path, cut: int) -> None:
    file = kept(tmp_path, 0, 1)
    file.write_bytes(file.read_bytes()[:-cut])
    with AnswerLog(tmp_path) as log:
        assert log.answered[HERE] == {1}
        log.append(replayed(1))
    assert [pair.request.line for pair in read_pairs(tmp_path)] == [1, 2]


def test_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    file = kept(tmp_path, 0, 1, 2)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"event-1", b"event-9")
    file.write_bytes(b"".join(lines))
    assert [pair.request.line for pair in read_pairs(tmp_path)] == [1, 3]


def test_what_is_kept_can_be_replayed_itself_but_not_twice_at_once(tmp_path: Path) -> None:
    file = kept(tmp_path, 0, 1)
    index = CaptureIndex(LocalPlace(file))
    assert [again.body for again in index] == [request(0).body, request(1).body]
    with AnswerLog(tmp_path), pytest.raises(BlockingIOError):
        AnswerLog(tmp_path)


def test_what_failed_that_had_not_failed_is_a_failure_and_latencies_are_of_all() -> None:
    refused = recorded(b"", "text/html", status=400)
    cases: list[tuple[RecordedAnswer | None, RecordedAnswer, dict[str, int]]] = [
        (ANSWER, ANSWER, {}),
        (ANSWER, refused, {"400": 1}),
        (None, refused, {"400": 1}),
        (refused, recorded(b"", "a/b", status=424), {}),  # SageMaker's for a container's 400
        (refused, SILENT, {"timeout": 1}),
        (refused, ANSWER, {}),
    ]
    for captured, now, failures in cases:
        summary = ReplaySummary()
        summary.add(AnswerPair(request=request(answer=captured), answered=now))
        assert summary.failures == failures

    summary = ReplaySummary()
    for number in range(2500):
        answered = recorded(b"", "a/b", status=200, latency_ms=number / 10)
        summary.add(AnswerPair(request=request(), answered=answered, send_lag_ms=number / 100))
    assert summary.latencies.count == 2500
    assert summary.latencies.p50_ms == pytest.approx(125, rel=0.01)
    assert summary.send_lags.p99_ms == pytest.approx(24.75, rel=0.01)
