"""What a replay keeps, and what a kill leaves of it."""

from pathlib import Path

import pytest

from servable.captured.lines import CapturedRequest, RecordedAnswer
from servable.replay.answers import ANSWERS, AnswerLog, AnswerPair, ReplaySummary, read_pairs
from servable.replay.index import CaptureIndex
from servable.replay.places import LocalPlace
from tests.servable.replay.captures import ANSWER, request

CAME = RecordedAnswer(body=b"\x00other", content_type="a/b", status=200, latency_ms=1.5)
HERE = "captured/x.jsonl"


def captured(number: int) -> CapturedRequest:
    return request(number, file=HERE, line=number + 1, accept="a/b")


def replayed(number: int) -> AnswerPair:
    return AnswerPair(request=captured(number), answered=CAME, send_lag_ms=0.25)


def kept(folder: Path, *numbers: int) -> Path:
    with AnswerLog(folder) as log:
        for number in numbers:
            log.append(replayed(number))
    return folder / ANSWERS


def test_what_is_kept_is_private_and_read_again_with_another_targets_answer(tmp_path: Path) -> None:
    kept(tmp_path, 0)
    (pair,) = read_pairs(tmp_path)
    assert (pair.request.body, pair.expected_response, pair.answered, pair.send_lag_ms) == (
        captured(0).body, captured(0).answer, CAME, 0.25,
    )  # fmt: skip
    assert kept(tmp_path, 0).stat().st_mode & 0o777 == 0o600

    other = RecordedAnswer(body=b"", content_type="", error="timeout")
    with AnswerLog(tmp_path / "of two") as log:
        log.append(AnswerPair(request=captured(0), answered=CAME, other=other))
    (pair,) = read_pairs(tmp_path / "of two")
    assert pair.expected_response == other


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
    assert [again.body for again in index] == [captured(0).body, captured(1).body]
    with AnswerLog(tmp_path), pytest.raises(BlockingIOError):
        AnswerLog(tmp_path)


REFUSED = RecordedAnswer(body=b"", content_type="text/html", status=400)
# SageMaker's status for a container's 400.
BEHIND_ENDPOINT = RecordedAnswer(body=b"", content_type="a/b", status=424)
SILENT = RecordedAnswer(body=b"", content_type="", error="timeout")


def test_what_failed_that_had_not_failed_is_a_failure_and_latencies_are_of_all() -> None:
    cases: list[tuple[RecordedAnswer | None, RecordedAnswer, dict[str, int]]] = [
        (ANSWER, ANSWER, {}),
        (ANSWER, REFUSED, {"400": 1}),
        (None, REFUSED, {"400": 1}),
        (REFUSED, BEHIND_ENDPOINT, {}),
        (REFUSED, SILENT, {"timeout": 1}),
        (REFUSED, ANSWER, {}),
    ]
    for captured, now, failures in cases:
        summary = ReplaySummary()
        summary.add(AnswerPair(request=request(answer=captured), answered=now))
        assert summary.failures == failures

    summary = ReplaySummary()
    for number in range(2500):
        answered = RecordedAnswer(body=b"", content_type="a/b", status=200, latency_ms=number / 10)
        summary.add(AnswerPair(request=request(), answered=answered, send_lag_ms=number / 100))
    assert summary.latencies.count == 2500
    assert summary.latencies.p50_ms == pytest.approx(125, rel=0.01)
    assert summary.send_lags.p99_ms == pytest.approx(24.75, rel=0.01)
