"""Events of a stack: the CDK CLI sorts them by time, so that no two may have the same."""

from datetime import UTC, datetime, timedelta

import pytest

from servable_local.aws.cloudformation import stacks
from servable_local.aws.cloudformation.stacks import Stack

MOMENT = datetime(2026, 11, 23, tzinfo=UTC)


def test_events_of_one_moment_are_a_millisecond_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "utc_now", lambda: MOMENT)
    stack = Stack("arn", "prod", "111111111111", "us-east-1", "CREATE_IN_PROGRESS")
    for status in ("CREATE_IN_PROGRESS", "CREATE_COMPLETE"):
        stack.set_status(status)
    times = [event["Timestamp"] for event in stack.events]
    assert times == [MOMENT, MOMENT + timedelta(milliseconds=1)]
