"""Resource types: values as an API takes them, its limits, and an endpoint that CloudFormation waits for.

The limits and enumerations are botocore's.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.resources import TYPES, sagemaker
from servable_local.aws.resources.resource_type import (
    Logical,
    ResourceError,
    ResourceType,
    convert_arguments,
    format_violations,
    list_violations,
)
from servable_local.aws.resources.sagemaker import SageMakerEndpoint
from servable_local.aws.resources.storage import S3Bucket
from servable_local.aws.sagemaker.runtime_api import list_violated_limits

ALARM = {"AlarmName": "a", "EvaluationPeriods": 1, "ComparisonOperator": "GreaterThanThreshold"}


@pytest.mark.parametrize(
    ("given", "fitted"),
    [
        ({"EvaluationPeriods": "3"}, {"EvaluationPeriods": 3}),
        ({"EvaluationPeriods": "many"}, {"EvaluationPeriods": "many"}),
        ({"EvaluationPeriods": "2.5"}, {"EvaluationPeriods": 2.5}),
        ({"Threshold": "2"}, {"Threshold": 2.0}),
        ({"EvaluationPeriods": True}, {"EvaluationPeriods": True}),
        ({"ActionsEnabled": "true"}, {"ActionsEnabled": True}),
        ({"ActionsEnabled": "FALSE"}, {"ActionsEnabled": False}),
        ({"ActionsEnabled": "perhaps"}, {"ActionsEnabled": "perhaps"}),
        ({"AlarmName": 5}, {"AlarmName": "5"}),
        ({"AlarmName": True}, {"AlarmName": "true"}),
        ({"AlarmName": {"a": 1}}, {"AlarmName": '{"a": 1}'}),
        ({"AlarmActions": "arn"}, {"AlarmActions": ["arn"]}),
        ({"Dimensions": [{"Name": 1}]}, {"Dimensions": [{"Name": "1"}]}),
        ({"Absent": 1}, {"Absent": 1}),
    ],
)
def test_a_value_fits_the_api(given: dict[str, Any], fitted: dict[str, Any]) -> None:
    arguments = convert_arguments(given, "cloudwatch", "PutMetricAlarm")
    assert json.dumps(arguments) == json.dumps(fitted)


def test_what_is_not_emulated_is_refused_by_name() -> None:
    invalid = "/StateValue: BAD is not a valid enum value; allowed: "
    with pytest.raises(ResourceError, match=invalid):
        convert_arguments({"StateValue": "BAD"}, "cloudwatch", "SetAlarmState")
    # --- resource types
    logical: Any = None
    with pytest.raises(NotImplementedError):
        ResourceType().put("physical", {}, {}, logical)
    with pytest.raises(ResourceError, match="AWS::S3::Bucket: Aa, Zz is not emulated"):
        S3Bucket().check({"Zz": 1, "BucketName": "b", "Aa": 2})


def test_every_limit_of_the_model_is_checked() -> None:
    long = ALARM | {"AlarmActions": ["a", "x" * 1025]}
    assert list_violations(long, "cloudwatch", "PutMetricAlarm") == [
        "Value at 'alarmActions.2.member' failed to satisfy constraint: Member must have length "
        "less than or equal to 1024"
    ]
    cases: list[tuple[dict[str, Any], int]] = [
        ({}, 0),
        ({"AlarmName": "x" * 255}, 0),
        ({"AlarmName": "x" * 256}, 1),
        ({"AlarmName": ""}, 1),
        ({"EvaluationPeriods": 0}, 1),
        ({"AlarmDescription": None}, 1),
        ({"AlarmActions": ["a"] * 5}, 0),
        ({"AlarmActions": ["a"] * 6}, 1),
        ({"AlarmActions": [""]}, 1),
        ({"AlarmName": "x" * 256, "AlarmActions": ["a"] * 6}, 2),
        ({"Threshold": "a word"}, 1),
    ]
    for given, problems in cases:
        assert len(list_violations(ALARM | given, "cloudwatch", "PutMetricAlarm")) == problems
    for gigabytes, problems in [(1, 0), (512, 0), (513, 1)]:
        variant = {"VariantName": "primary", "VolumeSizeInGB": gigabytes}
        given = {"EndpointConfigName": "first", "ProductionVariants": [variant]}
        assert len(list_violations(given, "sagemaker", "CreateEndpointConfig")) == problems
    assert format_violations(["a"]) == "1 validation error detected: a"
    assert format_violations(["a", "b"]) == "2 validation errors detected: a; b"


def test_a_header_has_two_bounds_and_a_pattern() -> None:
    for name, value, must in [
        ("Inference-Id", "", "have length greater than or equal to 1"),
        ("Inference-Id", "x" * 65, "have length less than or equal to 64"),
        ("Target-Variant", "-", "satisfy regular expression pattern"),
    ]:
        problems = list_violated_limits({f"X-Amzn-SageMaker-{name}": value}, b"")
        where = name[0].lower() + name[1:].replace("-", "")
        said = f"Value at '{where}' failed to satisfy constraint: Member must {must}"
        assert problems[-1].startswith(said)


def test_a_name_is_the_templates_or_made() -> None:
    def name(longest: int) -> str:
        return f"made-{longest}"

    aws: Any = None
    logical = Logical(aws=aws, logical_id="A", generate_name=name, exists=lambda physical: None)
    bucket = S3Bucket()
    assert bucket.choose_name({}, logical) == f"made-{bucket.longest_name}"
    assert bucket.choose_name({"BucketName": "own"}, logical) == "own"


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"AWS::CDK::Metadata"}))
def test_a_type_is_made_anew_and_named_as_its_schema_says(name: str) -> None:
    manager = pytest.importorskip("cfnlint.schema").PROVIDER_SCHEMA_MANAGER
    schema, own = manager.get_resource_schema("us-east-1", name).schema, TYPES[name]
    paths = schema.get("createOnlyProperties", [])
    listed = {path.removeprefix("/properties/") for path in paths if path.count("/") == 2}
    # Properties that are not emulated are rejected by name.
    assert own.create_only == (listed if own.emulated is None else listed & own.emulated)
    if own.name_property:
        most = schema["properties"][own.name_property].get("maxLength")
        # An endpoint's schema says 64, and its pattern, as the API, 63.
        most = 63 if name == "AWS::SageMaker::Endpoint" else most
        assert most is None or own.longest_name == min(255, most)


# --- an endpoint of a stack

ARN = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/ranker"
WANTED = {"EndpointName": "ranker", "EndpointConfigName": "second", "Tags": []}


def described(status: str = "InService", config: str = "second") -> dict[str, str]:
    return {"EndpointName": "ranker", "EndpointConfigName": config, "EndpointStatus": status}


class Answering:
    """Answers DescribeEndpoint with one state after the other, and remembers the calls."""

    def __init__(self, *states: dict[str, str], fails: str = "") -> None:
        self.states = list(states)
        self.fails = fails
        self.calls: list[tuple[str, Any]] = []
        self.existing: list[str] = []

    def call(self, service: str, operation: str, given: Any) -> Any:
        if operation == "DescribeEndpoint":
            return self.states.pop(0) if len(self.states) > 1 else self.states[0]
        self.calls.append((operation, given))
        if self.fails:
            raise ClientError({"Error": {"Message": self.fails}}, operation)
        return {"EndpointArn": ARN}

    update_tags = Logical.update_tags

    def client(self, service: str) -> Any:
        return SimpleNamespace(exceptions=SimpleNamespace(ClientError=ClientError))

    def exists(self, physical: str) -> None:
        self.existing.append(physical)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds between looks, in which nobody waits."""
    seconds: list[float] = []
    monkeypatch.setattr(sagemaker, "time", SimpleNamespace(sleep=seconds.append))
    return seconds


def create(logical: Any) -> Any:
    return SageMakerEndpoint().create({**WANTED, "RetainDeploymentConfig": True}, logical)


def update(logical: Any) -> Any:
    return SageMakerEndpoint().update(ARN, {"Tags": []}, WANTED, logical)


def delete(logical: Any) -> None:
    SageMakerEndpoint().delete(ARN, {}, logical)


def test_an_endpoint_is_created_and_known_before_it_serves() -> None:
    logical = Answering(described())
    assert create(logical).physical_id == ARN
    assert logical.calls == [("CreateEndpoint", WANTED)]

    logical = Answering(described("Failed"))
    with pytest.raises(ResourceError):
        create(logical)
    assert logical.existing == [ARN]


def test_an_endpoint_that_is_in_progress_is_looked_at_ever_more_rarely(pauses: list[float]) -> None:
    for status in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
        pauses.clear()
        create(Answering(described(status), described(status), described()))
        assert pauses == [0.01, 0.015]
    pauses.clear()
    create(Answering(*[described("Creating")] * 9, described()))
    assert (pauses == sorted(pauses), pauses[-2:]) == (True, [0.1, 0.1])


def test_an_endpoint_is_updated_unless_it_serves_the_configuration() -> None:
    logical = Answering(described(config="first"), described("Updating"), described())
    assert update(logical).attributes["EndpointName"] == "ranker"
    names = {"EndpointName": "ranker", "EndpointConfigName": "second"}
    assert logical.calls == [("UpdateEndpoint", names)]

    logical = Answering(described())
    update(logical)
    assert logical.calls == []

    logical = Answering(described("Failed"), described())
    update(logical)
    assert [operation for operation, _ in logical.calls] == ["UpdateEndpoint"]


def test_an_endpoint_that_does_not_serve_what_it_should_fails() -> None:
    first, failed = described(config="first"), described("Failed")
    for logical, ask, reason in (
        (Answering(failed | {"FailureReason": "no ping"}), create, "no ping"),
        (Answering(failed), create, "Failed"),
        (Answering(first, first | {"FailureReason": "taken back"}), update, "taken back"),
        (Answering(first, failed), update, "Failed"),
    ):
        with pytest.raises(ResourceError, match=f"^{reason}$"):
            ask(logical)


def test_an_endpoint_is_deleted_unless_it_is_gone() -> None:
    logical = Answering(described(), fails=f'Could not find endpoint "{ARN}".')
    delete(logical)
    assert [operation for operation, _ in logical.calls] == ["DeleteEndpoint"]
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        delete(Answering(described(), fails="Cannot update in-progress endpoint"))
