"""Every alarm of five files: metric, dimensions, threshold, window, missing data, and topics."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised
from tests.constructs.test_dashboard import BOARDS

Synthesise = Callable[..., Synthesised]
ROLLED_OUT = (
    VALID
    + """min_instances = 2
max_instances = 4
scaling.max_rps_per_instance = 164
[rollout]
strategy = "canary"
canary_percent = 50
golden_requests = { body = "golden/request-rows.json" }
[alarms]
p99_latency_ms = 80
error_4xx_percent = 5
model_error_percent = 2
no_traffic_minutes = 5
notify = ["a@example.com"]
page = ["b@example.com"]
"""
)
FILES = BOARDS | {"rollout": ROLLED_OUT}
OPERATORS = {
    "GreaterThanThreshold": ">",
    "LessThanThreshold": "<",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanOrEqualToThreshold": "<=",
}


def flat(value: Any) -> str:
    """Return a property as text; the logical id of a resource without CDK's hash."""
    if not isinstance(value, dict):
        return str(value)
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        return "".join(map(flat, argument[1]))
    return f"<{argument[0] if isinstance(argument, list) else argument}"[:-8] + ">"


def metric_of(metric: dict[str, Any], statistic: str, period: int) -> str:
    of = ", ".join(f"{each['Name']} {flat(each['Value'])}" for each in metric.get("Dimensions", ()))
    return f"{metric['Namespace']} {metric['MetricName']} {statistic} of {of} in {period} s"


def described(alarm: dict[str, Any], short: str) -> Iterator[str]:
    """Return the lines of an alarm. `short` is the fingerprint in the names of rollback alarms."""
    yield flat(alarm["AlarmName"]).replace(short, "FINGERPRINT")
    if "AlarmRule" in alarm:
        yield f"  {flat(alarm['AlarmRule'])}"
    else:
        yield (
            f"  {OPERATORS[alarm['ComparisonOperator']]} {alarm['Threshold']:g} in "
            f"{alarm['DatapointsToAlarm']} of {alarm['EvaluationPeriods']}, {alarm['TreatMissingData']}"
        )
    if "MetricName" in alarm:
        extended = alarm.get("ExtendedStatistic")
        assert alarm.get("EvaluateLowSampleCountPercentile") == (extended and "evaluate")
        yield f"  {metric_of(alarm, extended or alarm['Statistic'], alarm['Period'])}"
    for query in alarm.get("Metrics", ()):
        if "Expression" in query:
            assert query["ReturnData"] is True
            yield f"  {query['Expression']}"
            continue
        assert query["ReturnData"] is False
        stat = query["MetricStat"]
        yield f"    {query['Id']} = {metric_of(stat['Metric'], stat['Stat'], stat['Period'])}"
    if "rollback" in alarm["AlarmName"]:
        # An error that is compared with the old fleet's is said so.
        compared = "(requests - new_requests)" in str(alarm.get("Metrics"))
        assert ("the old fleet's percentage by more than" in alarm["AlarmDescription"]) is compared
    assert alarm.get("AlarmActions") == alarm.get("OKActions")
    yield f"  to {', '.join(map(flat, alarm.get('AlarmActions', ['SageMaker'])))}"


@pytest.mark.parametrize("name", FILES)
def test_every_alarm_fires_as_written_down(synthesise: Synthesise, name: str) -> None:
    found = synthesise(FILES[name])
    alarms = [*found.all("AWS::CloudWatch::Alarm"), *found.all("AWS::CloudWatch::CompositeAlarm")]
    names = [flat(alarm["AlarmName"]) for alarm in alarms]
    short = next((each[-8:] for each in names if "rollback" in each), "none")
    conditions = (Path(__file__).parent / "alarm_conditions.txt").read_text().split("== ")
    (expected,) = (each for each in conditions if each.startswith(f"{name}\n"))
    blocks = sorted(list(described(alarm, short)) for alarm in alarms)
    shown = [line for block in blocks for line in block]
    assert shown == expected.splitlines()[1:]
