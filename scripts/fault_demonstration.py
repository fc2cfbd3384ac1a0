"""What can be wrong with a deployed model, each until its alarm is in ALARM, and then until it recovers."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scripts import timeline
from servable_local.aws import LocalAws

ENDPOINT = "ranker-local"
P99_LATENCY_MS = 250  # what the alarm allows: a busy computer alone must not set it off
SLOW_MS = 600
KILL_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Fault:
    """`make` is called again and again while it lasts; `metric` is whose alarm should go off."""

    name: str
    said: str
    metric: str
    make: Callable[[LocalAws], None]
    again: bool = False


FAULTS = (
    Fault(
        "slowed",
        f"every prediction takes {SLOW_MS} ms longer",
        "ModelLatency",
        lambda aws: aws.inject_fault(ENDPOINT, latency_ms=SLOW_MS),
    ),
    Fault(
        "killed",
        f"the model server is killed every {KILL_EVERY_SECONDS:g} s; its supervisor starts it again",
        "Invocation5XXErrors",
        lambda aws: aws.inject_fault(ENDPOINT, kill="model server"),
        again=True,
    ),
    Fault(
        "answering 503",
        "the model server answers 503 to every prediction",
        "Invocation5XXErrors",
        lambda aws: aws.inject_fault(ENDPOINT, status=503),
    ),
)


QUIET_MINUTES = 3
LONGEST_MINUTES = 15
_POLL_SECONDS = 0.1
_MINUTE_SECONDS = 60


class DemonstrationError(Exception):
    """The demonstration did not show what it should. `str()` says what."""


@dataclass
class FaultOutcome:
    """The outcome of one injected fault. Minutes are those of the local AWS's clock."""

    trouble: str
    alarm: str
    alarm_after_minutes: float
    recovered_after_minutes: float


class Demonstration:
    """Over one deployed endpoint, under load."""

    def __init__(self, aws: LocalAws, began: datetime) -> None:
        assert aws.seconds_per_minute is not None  # a clock that goes by itself
        self._seconds_per_minute = aws.seconds_per_minute
        self._aws = aws
        self._cloudwatch = aws.client("cloudwatch")
        alarms = self._cloudwatch.describe_alarms()["MetricAlarms"]
        # One that is computed from several metrics goes by its own name.
        self._metrics = {
            alarm["AlarmName"]: alarm.get("MetricName", alarm["AlarmName"]) for alarm in alarms
        }
        self._alarms = {metric: name for name, metric in self._metrics.items()}
        self._began = began
        self.events: list[timeline.Event] = []
        self.findings: list[FaultOutcome] = []

    def quiet(self) -> None:
        """All well for some minutes."""
        self._until("all alarms are OK", lambda: set(self._states().values()) == {"OK"})
        time.sleep(QUIET_MINUTES * self._seconds_per_minute)

    def make(self, fault: Fault) -> None:
        alarm = self._alarms[fault.metric]
        self._until("the alarm is OK", lambda: self._states()[alarm] == "OK")
        began = self._note(f"{fault.name}: {fault.said}")
        fault.make(self._aws)
        last = time.monotonic()

        def alarmed() -> bool:
            nonlocal last
            if fault.again and time.monotonic() - last >= KILL_EVERY_SECONDS:
                fault.make(self._aws)
                last = time.monotonic()
            return self._states()[alarm] == "ALARM"

        self._until(f"the alarm on {fault.metric} goes off", alarmed)
        fired = self._changed(alarm, "ALARM", began)
        self._aws.inject_fault(ENDPOINT, end=True)
        ended = self._note("the fault ends")
        self._until("the alarm recovers", lambda: self._states()[alarm] == "OK")
        recovered = self._changed(alarm, "OK", ended)
        self.findings.append(
            FaultOutcome(
                fault.name, fault.metric, _minutes(began, fired), _minutes(ended, recovered)
            )
        )

    def alarm_changes(self) -> list[timeline.Event]:
        """Every change of every alarm since the load began, in the clock's time."""
        return [
            timeline.Event(
                one["Timestamp"].replace(tzinfo=None),
                f"{self._metrics[one['AlarmName']]}: {one['HistorySummary'].rsplit(' ', 1)[1]}",
            )
            for name in self._metrics
            for one in self._history(name)
            if one["Timestamp"].replace(tzinfo=None) >= self._began
        ]

    def _note(self, said: str) -> datetime:
        at = self._aws.now()
        self.events.append(timeline.Event(at, said))
        return at

    def _states(self) -> dict[str, str]:
        metric_alarms = self._cloudwatch.describe_alarms()["MetricAlarms"]
        return {one["AlarmName"]: one["StateValue"] for one in metric_alarms}

    def _history(self, alarm: str) -> list[dict[str, Any]]:
        alarm_history_items: list[dict[str, Any]] = self._cloudwatch.describe_alarm_history(
            AlarmName=alarm, HistoryItemType="StateUpdate", ScanBy="TimestampAscending"
        )["AlarmHistoryItems"]
        return alarm_history_items

    def _changed(self, alarm: str, state: str, after: datetime) -> datetime:
        moments: list[datetime] = [
            one["Timestamp"].replace(tzinfo=None)
            for one in self._history(alarm)
            if one["HistorySummary"].endswith(f" to {state}")
        ]
        # A late tick has the time that it was due: on a busy computer that may be before.
        return max(moments[-1], after)

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + LONGEST_MINUTES * self._seconds_per_minute
        while not holds():
            if time.monotonic() > deadline:
                raise DemonstrationError(f"{LONGEST_MINUTES} minutes passed before {what}")
            time.sleep(_POLL_SECONDS)


def _minutes(start: datetime, end: datetime) -> float:
    return round((end - start).total_seconds() / _MINUTE_SECONDS, 1)
