"""Template values as an API takes them, and the limits that its model states.

The limits and enumerations are botocore's.
"""

import json
from typing import Any

import pytest

from servable_local.aws.resources import TYPES
from servable_local.aws.resources.resource_type import (
    Logical,
    ResourceError,
    ResourceType,
    convert_arguments,
    format_violations,
    list_violations,
)
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
    with pytest.raises(
        ResourceError, match="/StateValue: BAD is not a valid enum value; allowed: "
    ):
        convert_arguments({"StateValue": "BAD"}, "cloudwatch", "SetAlarmState")
    # --- resource types
    logical: Any = None
    with pytest.raises(NotImplementedError):
        ResourceType().put("physical", {}, {}, logical)
    with pytest.raises(ResourceError, match="AWS::S3::Bucket: Aa, Zz is not emulated"):
        S3Bucket().check({"Zz": 1, "BucketName": "b", "Aa": 2})


def test_every_limit_of_the_model_is_checked() -> None:
    assert list_violations(
        ALARM | {"AlarmActions": ["a", "x" * 1025]}, "cloudwatch", "PutMetricAlarm"
    ) == [
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


manager = pytest.importorskip("cfnlint.schema").PROVIDER_SCHEMA_MANAGER


@pytest.mark.parametrize("name", sorted(set(TYPES) - {"AWS::CDK::Metadata"}))
def test_a_type_is_made_anew_and_named_as_its_schema_says(name: str) -> None:
    schema, own = manager.get_resource_schema("us-east-1", name).schema, TYPES[name]
    listed = {
        path.removeprefix("/properties/")
        for path in schema.get("createOnlyProperties", [])
        if path.count("/") == 2
    }
    # Properties that are not emulated are rejected by name.
    assert own.create_only == (listed if own.emulated is None else listed & own.emulated)
    if own.name_property:
        most = schema["properties"][own.name_property].get("maxLength")
        # An endpoint's schema says 64, and its pattern, as the API, 63.
        most = 63 if name == "AWS::SageMaker::Endpoint" else most
        assert most is None or own.longest_name == min(255, most)
