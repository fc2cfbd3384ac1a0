"""The register of alarms on a clock that stands still: composites, actions, history, and what is forgotten.

Source: https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/Create_Composite_Alarm.html
"""

import json
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudwatch.alarms import Alarm, CloudWatch
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_scaling.alarms.query import Metric

TOPIC, SCALE = "arn:aws:sns:us-east-1:1:alarms", "arn:aws:autoscaling:us-east-1:1:policy"
METRIC = Metric.from_dimensions("Own", "Load", {})


class Aws:
    """An account and region whose SNS and EventBridge are remembered."""

    account, region = "1", "us-east-1"

    def __init__(self) -> None:
        self.published: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def client(self, service: str) -> Any:
        assert service == "sns"
        return SimpleNamespace(publish=self._publish)

    def _publish(self, **message: Any) -> None:
        if self.error is not None:
            raise self.error
        self.published.append(message)

    def send_event(self, source: str, kind: str, detail: Any, resource: str, at: Any) -> None:
        self.events.append({"kind": kind, "detail": detail})


class Case:
    def __init__(self) -> None:
        self.aws = cast(Any, Aws())
        self.clock = ManualClock()
        self.watch = CloudWatch(self.aws, self.clock)
        self.clock.call_every_tick(self.watch.tick)
        self.alarms = self.watch.alarms
        self.put("a")

    def put(self, name: str, **more: Any) -> None:
        request = {
            "AlarmName": name, "Namespace": "Own", "MetricName": "Load", "Statistic": "Maximum",
            "Period": 60, "EvaluationPeriods": 1, "Threshold": 10.0,
            "ComparisonOperator": "GreaterThanThreshold",
        }  # fmt: skip
        self.alarms.put_alarm("MetricAlarm", request | more, {})

    def composite(self, name: str, rule: str, **more: Any) -> None:
        self.alarms.put_alarm("CompositeAlarm", {"AlarmName": name, "AlarmRule": rule, **more}, {})

    def minute(self, value: float | None = None) -> None:
        if value is not None:
            self.watch.metrics.add(METRIC, value, unit="None", at=self.clock.now())
        self.clock.advance(minutes=1)

    def alarm(self, name: str) -> Alarm:
        alarm = self.alarms.find_alarm(name)
        assert alarm is not None
        return alarm

    def state(self, name: str) -> str:
        return self.alarm(name).state

    def set(self, name: str, state: Any) -> None:
        self.alarms.set_state(name, state, "by hand", "{}")

    def items(self, name: str, kind: str) -> list[str]:
        history = self.alarm(name).history
        return [one["HistorySummary"] for one in history if one["HistoryItemType"] == kind]


@pytest.fixture
def case() -> Case:
    return Case()


# --- composites
def test_a_composite_alarm_follows_its_alarms() -> None:
    for rule, states in {
        "ALARM(a)": ["ALARM", "OK"],
        "OK(a)": ["OK", "ALARM"],
        "INSUFFICIENT_DATA(a)": ["OK", "OK"],
        "NOT ALARM(a)": ["OK", "ALARM"],
        "ALARM(arn:aws:cloudwatch:us-east-1:1:alarm:a)": ["ALARM", "OK"],
    }.items():
        case = Case()
        case.composite("c", rule)
        found = []
        for value in (11.0, 1.0):
            case.minute(value)
            found.append(case.state("c"))
        assert found == states, rule


def test_a_composite_alarm_follows_its_alarms_in_any_order(case: Case) -> None:
    case.put("b")
    case.composite("first", "ALARM(a)")
    case.composite("second", "ALARM(first)")
    case.composite("first", "ALARM(b)")
    case.composite("third", "ALARM(second)")
    case.set("b", "ALARM")
    assert [case.state(name) for name in ("first", "second", "third")] == ["ALARM"] * 3

    case = Case()
    case.composite("c", "ALARM(a)")
    case.set("a", "ALARM")
    alarm = case.alarm("c")
    arn = alarm.arn.replace(":alarm:c", ":alarm:a")
    at = f"{alarm.transitioned:%A %d %B, %Y %H:%M:%S} UTC"
    assert alarm.reason == f"{arn} transitioned to ALARM at {at}"

    case = Case()
    case.composite("c", "INSUFFICIENT_DATA(a)")
    case.set("a", "OK")
    before = case.state("c")
    case.alarms.delete(["a", "absent"])
    case.minute()
    assert (before, case.state("c"), case.alarms.find_alarm("a")) == ("OK", "ALARM", None)


def test_what_cannot_be_an_alarm_is_refused(case: Case) -> None:
    with pytest.raises(ValueError, match=r"as alarms \[x, y\] in the alarm rule do not exist"):
        case.composite("c", "ALARM(y) OR ALARM(a) OR ALARM(x)")
    assert case.alarms.find_alarm("c") is None
    with pytest.raises(ValueError, match="a is already the name of a MetricAlarm"):
        case.composite("a", "TRUE")
    assert len(case.alarms.list_alarms()) == 1


# --- times
def test_when_alarms_are_looked_at(case: Case) -> None:
    case.watch.metrics.add(METRIC, 11.0, unit="None", at=case.clock.now())
    states = []
    for _ in range(6):
        case.clock.advance(seconds=10)
        states.append(case.state("a"))
    assert states == ["INSUFFICIENT_DATA"] * 5 + ["ALARM"]

    case = Case()
    case.minute(1.0)
    case.set("a", "ALARM")
    case.clock.advance(seconds=50)
    held = case.state("a")
    case.watch.metrics.add(METRIC, 1.0, unit="None", at=case.clock.now())
    case.clock.advance(seconds=10)
    assert (held, case.state("a")) == ("ALARM", "OK")

    case = Case()
    case.watch.metrics.add(METRIC, 1.0, unit="None", at=case.clock.now())
    case.clock.advance(minutes=180)
    kept = case.watch.metrics.list_metrics()
    case.clock.advance(minutes=9, seconds=50)
    late = case.watch.metrics.list_metrics()
    case.clock.advance(seconds=10)
    assert (kept, late, case.watch.metrics.list_metrics()) == ([METRIC], [METRIC], [])

    # --- alarms whose scaling acts
    case = Case()
    case.put("b", Threshold=100.0)
    case.minute(11.0)
    acting = [[alarm.name for alarm, _, _ in case.alarms.acting]]
    case.set("b", "ALARM")
    for _ in range(2):
        case.clock.advance(seconds=10)
        acting.append([alarm.name for alarm, _, _ in case.alarms.acting])
    assert acting == [["a"], ["b"], []]
    # --- an alarm of ten seconds
    case = Case()
    case.put("fine", Period=10)
    case.watch.metrics.add(METRIC, 11.0, unit="None", at=case.clock.now())
    case.clock.advance(seconds=10)
    assert case.state("fine") == "ALARM"


# --- what a change does
def test_a_message_says_what_changed(case: Case) -> None:
    case.put("a", AlarmActions=[TOPIC], OKActions=[TOPIC + "-ok"], AlarmDescription="too much")
    case.minute(11.0)
    (message,) = case.aws.published
    said = json.loads(message["Message"])
    assert (message["TopicArn"], message["Subject"]) == (
        TOPIC, 'ALARM: "a" in US East (N. Virginia)',
    )  # fmt: skip
    assert (said["OldStateValue"], said["NewStateValue"], said["AlarmDescription"]) == (
        "INSUFFICIENT_DATA", "ALARM", "too much",
    )  # fmt: skip
    assert (said["Trigger"]["MetricName"], said["AlarmActions"]) == ("Load", [TOPIC])

    case = Case()
    case.put("d", Dimensions=[{"Name": "Host", "Value": "x"}], AlarmActions=[TOPIC])
    case.set("d", "ALARM")
    trigger = json.loads(case.aws.published[0]["Message"])["Trigger"]
    assert trigger["Dimensions"] == [{"name": "Host", "value": "x"}]

    case = Case()
    case.composite("c", "ALARM(a)", AlarmActions=[TOPIC])
    case.set("a", "ALARM")
    message = json.loads(case.aws.published[0]["Message"])
    (child,) = message["TriggeringChildren"]
    assert (message["AlarmRule"], child["Arn"][-2:], child["State"]["Value"], "Trigger" in message) == (
        "ALARM(a)", ":a", "ALARM", False,
    )  # fmt: skip

    case.put("n" * 200, AlarmActions=[TOPIC])
    case.set("n" * 200, "ALARM")
    assert len(case.aws.published[1]["Subject"]) == 100

    case = Case()
    case.put("a", AlarmActions=[TOPIC], ActionsEnabled=False)
    case.minute(11.0)
    (event,) = case.aws.events
    assert (case.aws.published, event["kind"]) == ([], "CloudWatch Alarm State Change")
    assert (event["detail"]["state"]["value"], event["detail"]["previousState"]["value"]) == (
        "ALARM", "INSUFFICIENT_DATA",
    )  # fmt: skip
    # --- a region that botocore does not know
    case = Case()
    case.aws.region = "xx-nowhere-1"
    case.put("a", AlarmActions=[TOPIC])
    case.set("a", "ALARM")
    assert case.aws.published[0]["Subject"] == 'ALARM: "a" in xx-nowhere-1'


@pytest.mark.parametrize(
    ("action", "state", "failure"),
    [
        (TOPIC, "ALARM", None),
        (SCALE, "ALARM", None),
        (SCALE, "OK", "the local AWS runs only SNS actions and, in ALARM, scaling actions"),
        ("arn:aws:lambda:x", "ALARM", "the local AWS runs only SNS actions and, in ALARM, scaling actions"),
    ],
)  # fmt: skip
def test_the_history_says_which_action_was_carried_out(
    case: Case, action: str, state: str, failure: str | None
) -> None:
    case.put("a", AlarmActions=[action], OKActions=[action])
    case.set("a", state)
    data = json.loads(case.alarm("a").history[-1]["HistoryData"])
    done = "Failed to execute" if failure else "Successfully executed"
    assert case.items("a", "Action") == [f"{done} action {action}"]
    assert data == {"actionState": "Failed" if failure else "Succeeded", "error": failure}


def test_the_history_has_every_change(case: Case) -> None:
    case.set("a", "OK")
    case.set("a", "OK")
    assert case.items("a", "StateUpdate") == ["Alarm updated from INSUFFICIENT_DATA to OK"]
    assert len(case.aws.events) == 1

    case = Case()
    case.alarms.set_state("a", "OK", "first", '{"n": 1}')
    case.alarms.set_state("a", "ALARM", "second", "isn't JSON")
    alarm = case.alarm("a")
    data = json.loads(alarm.history[-1]["HistoryData"])
    assert (data["version"], data["oldState"]) == (
        "1.0", {"stateValue": "OK", "stateReason": "first", "stateReasonData": {"n": 1}},
    )  # fmt: skip
    assert data["newState"] == {
        "stateValue": "ALARM", "stateReason": "second", "stateReasonData": "isn't JSON",
    }  # fmt: skip
    for number in range(1001):
        alarm.add_history_item(case.clock.now(), "Action", str(number), {})
    assert (len(alarm.history), alarm.history[0]["HistorySummary"]) == (1000, "1")

    case = Case()
    case.aws.error = ValueError("no topic")
    case.put("a", AlarmActions=[TOPIC])
    case.set("a", "ALARM")
    assert case.items("a", "Action") == [f"Failed to execute action {TOPIC}"]


def test_an_alarm_put_again_is_updated_and_described(case: Case) -> None:
    created = case.clock.now()
    case.clock.advance(seconds=5)
    case.put("a", Threshold=1.0)
    shown = case.alarm("a").describe()
    assert case.items("a", "ConfigurationUpdate") == ['Alarm "a" created', 'Alarm "a" updated']
    assert (shown["AlarmConfigurationUpdatedTimestamp"], shown["StateUpdatedTimestamp"]) == (
        created + timedelta(seconds=5), created,
    )  # fmt: skip

    case.composite("c", "TRUE")
    shown = case.alarm("a").describe()
    actions = [shown[name] for name in ("AlarmActions", "OKActions", "InsufficientDataActions")]
    assert (actions, shown["ActionsEnabled"], shown["Dimensions"]) == ([[], [], []], True, [])
    assert "Dimensions" not in case.alarm("c").describe()


# --- samples of a metric
@pytest.mark.parametrize("others", [0, 100])
def test_samples_are_those_that_begin_in_the_window(others: int) -> None:
    store, start = MetricStore(), ManualClock().now()
    for number in range(-others, 6):
        store.add(METRIC, 1.0, unit="None", at=start + timedelta(seconds=10 * number + 3))
    for seconds, count in [(9, 1), (10, 1), (11, 2), (20, 2), (60, 6)]:
        found = store.collect_samples(METRIC, start, start + timedelta(seconds=seconds))
        assert found.count == count, seconds
