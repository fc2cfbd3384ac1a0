"""Alarms of a stack against those that are live, and the commands that write them again."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

import pytest

from servable.verify.alarms import compare_alarms
from servable.verify.deployed import UNKNOWN, Resource
from servable.verify.difference import RESTORE, Difference
from tests.servable.verify.answering import AnsweringAccount, resource, stack

TOPIC = "arn:aws:sns:us-east-1:111111111111:alarms"
METRIC = {
    "AlarmName": "ranker-cpu",
    "ComparisonOperator": "GreaterThanThreshold",
    "EvaluationPeriods": 3,
    "Threshold": 90,
    "MetricName": "CPUUtilization",
    "Namespace": "/aws/sagemaker/Endpoints",
    "AlarmActions": [TOPIC],
}
COMPOSITE = {"AlarmName": "ranker-objective", "AlarmRule": 'ALARM("ranker-cpu")'}


def deployed(**more: Any) -> Resource:
    return resource("CloudWatch::Alarm", "ranker-cpu", **{**METRIC, **more})


def find(*resources: Resource, live: list[Mapping[str, Any]]) -> list[Difference]:
    """The differences where CloudWatch has these alarms."""

    def describe(asked: Mapping[str, Any]) -> Mapping[str, Any]:
        named = [alarm for alarm in live if alarm["AlarmName"] in asked["AlarmNames"]]
        assert len(asked["AlarmNames"]) <= asked["MaxRecords"] == 100
        return {
            "MetricAlarms": [alarm for alarm in named if "AlarmRule" not in alarm],
            "CompositeAlarms": [alarm for alarm in named if "AlarmRule" in alarm],
        }

    return list(compare_alarms(stack(AnsweringAccount(DescribeAlarms=describe), *resources)))


def test_alarms_as_deployed_or_off_on_purpose_have_no_difference() -> None:
    assert find(deployed(), live=[{**METRIC, "ActionsEnabled": True}]) == []
    assert find(deployed(DatapointsToAlarm=2), live=[{**METRIC, "DatapointsToAlarm": 2}]) == []
    defaults = {"TreatMissingData": "missing", "DatapointsToAlarm": 3}
    assert find(deployed(), live=[{**METRIC, **defaults}]) == []

    names = [f"alarm-{number}" for number in range(201)]
    resources = [deployed(AlarmName=name) for name in names]
    live: list[Mapping[str, Any]] = [{**METRIC, "AlarmName": name} for name in names]
    assert find(*resources, live=live) == []
    assert [each.resource for each in find(*resources, live=live[:-1])] == ["alarm-200"]

    off = {"ActionsEnabled": False}
    assert find(deployed(**off), live=[{**METRIC, **off}]) == []
    assert [
        each.kind for each in find(deployed(**off), live=[METRIC | {"ActionsEnabled": True}])
    ] == ["alarm changed"]


def test_a_missing_alarm_is_named_with_the_command_that_writes_it() -> None:
    (found,) = find(deployed(), live=[])
    assert (found.kind, found.resource) == ("alarm missing", "ranker-cpu")
    begins = "it was deleted outside CloudFormation; a deployment won't recreate it; create it: `"
    assert found.remedy.startswith(begins)
    command = shlex.split(found.remedy.removeprefix(begins).removesuffix("`"))
    assert command[:5] == ["aws", "cloudwatch", "put-metric-alarm", "--region", "us-east-1"]
    assert json.loads(command[-1]) == METRIC
    objective = resource("CloudWatch::CompositeAlarm", "ranker-objective", **COMPOSITE)
    assert [each.resource for each in find(objective, deployed(), live=[])] == [
        "ranker-cpu",
        "ranker-objective",
    ]
    assert "put-composite-alarm" in find(objective, live=[])[0].remedy

    properties = {key: value for key, value in METRIC.items() if key != "AlarmName"}
    unnamed = resource("CloudWatch::Alarm", "generated", **properties)
    assert find(unnamed, live=[{**METRIC, "AlarmName": "generated"}]) == []
    assert '"AlarmName":"generated"' in find(unnamed, live=[])[0].remedy
    (found,) = find(deployed(AlarmActions=[UNKNOWN]), live=[])
    assert (RESTORE in found.remedy, "put-metric-alarm" in found.remedy) == (True, False)


@pytest.mark.parametrize(
    ("change", "kind", "key"),
    [
        ({"Threshold": 1}, "alarm changed", "Threshold"),
        ({"TreatMissingData": "notBreaching"}, "alarm changed", "TreatMissingData"),
        ({"DatapointsToAlarm": 1}, "alarm changed", "DatapointsToAlarm"),
        ({"Unit": "Percent"}, "alarm changed", "Unit"),
        ({"ActionsEnabled": False}, "alarm actions disabled", "ActionsEnabled"),
        ({"AlarmActions": []}, "alarm without actions", "AlarmActions"),
        ({"AlarmActions": ["arn:aws:sns:other"]}, "alarm actions", "AlarmActions"),
        ({"OKActions": [TOPIC]}, "alarm actions", "OKActions"),
        ({"InsufficientDataActions": [TOPIC]}, "alarm actions", "InsufficientDataActions"),
    ],
)
def test_what_was_changed_is_named(change: dict[str, Any], kind: str, key: str) -> None:
    (found,) = find(deployed(), live=[{**METRIC, **change}])
    assert (found.kind, found.key) == (kind, key)
    restores = "enable-alarm-actions --alarm-names ranker-cpu --region us-east-1"
    assert (restores if key == "ActionsEnabled" else "put-metric-alarm") in found.remedy


def test_a_suppressor_that_somebody_added_silences_a_composite_alarm() -> None:
    objective = resource("CloudWatch::CompositeAlarm", "ranker-objective", **COMPOSITE)
    (found,) = find(objective, live=[{**COMPOSITE, "ActionsSuppressor": "quiet"}])
    assert (found.key, found.wanted, found.found) == ("ActionsSuppressor", "the default", "quiet")
