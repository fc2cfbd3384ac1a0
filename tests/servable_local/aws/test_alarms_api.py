"""CloudWatch's operations on alarms, and what SageMaker refuses of an endpoint's next configuration."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.resources.storage import _convert_lifecycle_rule
from servable_local.aws.sagemaker.endpoint_api import check_change
from tests.servable_local.aws.deployed_templates import role
from tests.servable_local.aws.local_account import Account

TRUST = json.dumps(role()["Properties"]["AssumeRolePolicyDocument"])


@pytest.fixture
def cloudwatch(account: Account) -> Any:
    """With the alarms `slow` and `errors`."""
    client = account.client("cloudwatch")
    for name, metric in (("slow", "Latency"), ("errors", "Errors")):
        client.put_metric_alarm(
            AlarmName=name, Namespace="Own", MetricName=metric, Statistic="Sum", Period=60,
            EvaluationPeriods=1, Threshold=1, ComparisonOperator="GreaterThanThreshold",
        )  # fmt: skip
    return client


def names(answer: Any) -> list[str]:
    return sorted(alarm["AlarmName"] for alarm in answer["MetricAlarms"])


def test_alarms_are_found_and_a_state_that_is_set_is_in_the_history(cloudwatch: Any) -> None:
    cloudwatch.set_alarm_state(AlarmName="slow", StateValue="ALARM", StateReason="mine")
    described = cloudwatch.describe_alarms
    assert names(described()) == ["errors", "slow"]
    assert names(described(AlarmNames=["slow"])) == ["slow"]
    assert names(described(AlarmNamePrefix="err")) == ["errors"]
    assert names(described(StateValue="ALARM")) == ["slow"]
    assert names(cloudwatch.describe_alarms_for_metric(Namespace="Own", MetricName="Errors")) == [
        "errors"
    ]

    cloudwatch.set_alarm_state(AlarmName="slow", StateValue="ALARM", StateReason="mine")

    def history(**asked: Any) -> list[str]:
        items = cloudwatch.describe_alarm_history(**asked)["AlarmHistoryItems"]
        return [item["HistoryItemType"] for item in items]

    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
    newest, *_ = history(AlarmName="slow")
    assert (alarm["StateValue"], alarm["StateReason"], newest) == ("ALARM", "mine", "StateUpdate")
    assert history(AlarmName="slow", HistoryItemType="StateUpdate") == ["StateUpdate"]
    assert history(AlarmName="slow", ScanBy="TimestampAscending")[-1] == "StateUpdate"
    assert len(history(MaxRecords=1)) == 1
    assert history(AlarmTypes=["CompositeAlarm"]) == []
    with pytest.raises(ClientError, match="Value 'WRONG' at 'stateValue' failed"):
        cloudwatch.set_alarm_state(AlarmName="slow", StateValue="WRONG", StateReason="x")
    with pytest.raises(ClientError, match="ResourceNotFound"):
        cloudwatch.set_alarm_state(AlarmName="absent", StateValue="OK", StateReason="x")


def test_alarms_are_tagged_disabled_enabled_and_deleted(cloudwatch: Any) -> None:
    (alarm,) = cloudwatch.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
    arn = alarm["AlarmArn"]
    cloudwatch.tag_resource(ResourceARN=arn, Tags=[{"Key": k, "Value": "1"} for k in "ab"])
    cloudwatch.untag_resource(ResourceARN=arn, TagKeys=["a", "absent"])
    assert cloudwatch.list_tags_for_resource(ResourceARN=arn)["Tags"] == [
        {"Key": "b", "Value": "1"}
    ]

    def enabled() -> bool:
        (alarm,) = cloudwatch.describe_alarms(AlarmNames=["slow"])["MetricAlarms"]
        return bool(alarm["ActionsEnabled"])

    cloudwatch.disable_alarm_actions(AlarmNames=["slow"])
    disabled = not enabled()
    cloudwatch.enable_alarm_actions(AlarmNames=["slow"])
    assert (disabled, enabled()) == (True, True)
    cloudwatch.delete_alarms(AlarmNames=["slow"])
    assert names(cloudwatch.describe_alarms()) == ["errors"]


def config(*variants: str, serverless: bool = False, queued: bool = False) -> dict[str, Any]:
    more: dict[str, Any] = {"ServerlessConfig": {}} if serverless else {}
    found: dict[str, Any] = {"ProductionVariants": [{"VariantName": v, **more} for v in variants]}
    return found | ({"AsyncInferenceConfig": {}} if queued else {})


@pytest.mark.parametrize(
    ("old", "new", "deployment", "problem"),
    [
        (config("a"), config("b"), None, None),
        (config("a"), config("b"), {"AutoRollbackConfiguration": {}}, None),
        (config("a"), config("a"), {"BlueGreenUpdatePolicy": {}}, None),
        (config("a"), config("b"), {"BlueGreenUpdatePolicy": {}}, "same variant names"),
        (config("a"), config("a", "b"), {"RollingUpdatePolicy": {}}, "same variant names"),
        (config("a", queued=True), config("a"), None, "cannot be removed from this endpoint"),
        (config("a", queued=True), config("a", queued=True), None, None),
        (config("a"), config("a", serverless=True), None, "to a serverless endpoint is not supported"),
        (config("a", serverless=True), config("a", serverless=True), None, None),
    ],
)  # fmt: skip
def test_an_update_that_sagemaker_refuses_is_refused_here(
    old: dict[str, Any], new: dict[str, Any], deployment: dict[str, Any] | None, problem: str | None
) -> None:
    endpoint: Any = SimpleNamespace(name="ranker", config=old)
    if problem is None:
        check_change(endpoint, new, deployment)
    else:
        with pytest.raises(SageMakerError, match=problem):
            check_change(endpoint, new, deployment)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ({"ExpirationInDays": "3"}, {"Expiration": {"Days": 3}}),
        (
            {"ExpiredObjectDeleteMarker": "true"},
            {"Expiration": {"ExpiredObjectDeleteMarker": True}},
        ),
        ({}, {}),
    ],
)
def test_a_lifecycle_rule_is_spelt_as_in_s3(rule: dict[str, Any], expected: dict[str, Any]) -> None:
    assert _convert_lifecycle_rule({"Status": "Enabled", **rule}) == {
        "Status": "Enabled", "Filter": {"Prefix": ""}, **expected,
    }  # fmt: skip


def test_a_model_of_that_name_is_not_made_twice(account: Account) -> None:
    sagemaker = account.client("sagemaker")
    arn = account.client("iam").create_role(RoleName="r", AssumeRolePolicyDocument=TRUST)["Role"][
        "Arn"
    ]
    given = {
        "ModelName": "ranker",
        "ExecutionRoleArn": arn,
        "PrimaryContainer": {
            "Image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312",
            "ModelDataUrl": account.put_archive(b"a"),
        },
    }
    sagemaker.create_model(**given)
    with pytest.raises(ClientError, match="already existing model"):
        sagemaker.create_model(**given)
