"""What a replay counts as a failure, and what it says of its latencies."""

import pytest

from servable.captured.lines import RecordedAnswer
from servable.replay.answers import AnswerPair, ReplaySummary
from tests.servable.replay.captures import ANSWER, request

REFUSED = RecordedAnswer(body=b"", content_type="text/html", status=400)
# SageMaker's status for a container's 400.
BEHIND_ENDPOINT = RecordedAnswer(body=b"", content_type="a/b", status=424)
SILENT = RecordedAnswer(body=b"", content_type="", error="timeout")


@pytest.mark.parametrize(
    ("captured", "now", "failures"),
    [
        (ANSWER, ANSWER, {}),
        (ANSWER, REFUSED, {"400": 1}),
        (None, REFUSED, {"400": 1}),
        (REFUSED, BEHIND_ENDPOINT, {}),
        (REFUSED, SILENT, {"timeout": 1}),
        (REFUSED, ANSWER, {}),
    ],
    ids=["well", "refused now", "not captured", "refused then too", "silent now", "well now"],
)
def test_what_failed_that_had_not_failed_is_a_failure(
    captured: RecordedAnswer | None, now: RecordedAnswer, failures: dict[str, int]
) -> None:
    summary = ReplaySummary()
    summary.add(AnswerPair(request=request(answer=captured), answered=now))
    assert summary.failures == failures


def test_latencies_and_lags_are_those_of_all_answers() -> None:
    summary = ReplaySummary()
    for number in range(2500):
        answered = RecordedAnswer(body=b"", content_type="a/b", status=200, latency_ms=number / 10)
        summary.add(AnswerPair(request=request(), answered=answered, send_lag_ms=number / 100))
    assert summary.latencies.count == 2500
    assert summary.latencies.p50_ms == pytest.approx(125, rel=0.01)
    assert summary.send_lags.p99_ms == pytest.approx(24.75, rel=0.01)
