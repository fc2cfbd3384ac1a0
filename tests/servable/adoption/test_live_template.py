"""What is live as a template, and which changes of it are alike in effect."""

from datetime import UTC, datetime
from typing import Any

import pytest

from servable.init.adoption.expressed import expressed
from servable.init.adoption.live_template import live_template, same_in_effect
from tests.servable.adoption.pictures import picture, target, tracking

CONFIG, POLICY = "AWS::SageMaker::EndpointConfig", "AWS::ApplicationAutoScaling::ScalingPolicy"
OLD = {"CreationTime": datetime(2026, 6, 17, 12, tzinfo=UTC)}
NEW = {"CreationTime": datetime(2026, 6, 18, 12, tzinfo=UTC)}


def test_a_cooldown_of_zero_is_live_as_zero() -> None:
    wanted = tracking(ScaleInCooldown=0)
    after = {"Resources": {
        "Target": {"Type": "AWS::ApplicationAutoScaling::ScalableTarget",
                   "Properties": target(RoleARN="arn:aws:iam::123456789012:role/own")},
        "Policy": {"Type": POLICY,
                   "Properties": wanted | {"ScalingTargetId": {"Ref": "Target"}}}}}  # fmt: skip
    live = picture(targets=[target()], policies=[tracking(ScaleInCooldown=0)])
    properties = live_template(live, after)["Resources"]["Policy"]["Properties"]
    assert properties["TargetTrackingScalingPolicyConfiguration"]["ScaleInCooldown"] == 0


def test_a_variant_that_gets_no_traffic_gets_none_from_the_file() -> None:
    live = picture(variant={"InitialVariantWeight": 0.0}, endpoint={"ProductionVariants": []})
    assert expressed(live).tables["variants"]["AllTraffic"]["weight"] == 0.0


@pytest.mark.parametrize(
    ("what", "before", "after", "live"),
    [
        ("PrimaryContainer.Environment.SAGEMAKER_BIND_TO_PORT", "8080", None, {}),
        ("DataCaptureConfig.EnableCapture", None, "true", {}),
        ("DataCaptureConfig.CaptureOptions", '[{"CaptureMode": "InputAndOutput"}]',
         '[{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]', {}),
        ("TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification."
         "Dimensions[EndpointName].Value", "ranker", "ranker-2", {}),
        ("MetricsConfig.EnableEnhancedMetrics", None, "false", {}),
        ("MetricsConfig.MetricPublishFrequencyInSeconds", None, "60", {}),
        ("MetricsConfig.EnableDetailedObservability", None, "false", OLD),
        ("MetricsConfig.EnableDetailedObservability", None, "true", NEW),
    ],
)  # fmt: skip
def test_a_change_that_alters_nothing_is_alike_in_effect(
    what: str, before: str | None, after: str | None, live: dict[str, Any]
) -> None:
    assert same_in_effect(what, before, after, picture(config=live)) is not None


@pytest.mark.parametrize(
    ("what", "before", "after", "live"),
    [
        ("PrimaryContainer.Environment.FEATURES", "v2", None, {}),
        ("DataCaptureConfig.CaptureOptions", '[{"CaptureMode": "InputAndOutput"}]',
         '[{"CaptureMode": "Input"}]', {}),
        ("DataCaptureConfig.DestinationS3Uri", "s3://team/captured", None,
         {"DataCaptureConfig": {"DestinationS3Uri": "s3://team/captured"}}),
        ("MetricsConfig.EnableEnhancedMetrics", None, "true", {}),
        ("MetricsConfig.EnableDetailedObservability", None, "false", {}),
        ("MetricsConfig.EnableDetailedObservability", None, "false", NEW),
        ("MetricsConfig.EnableDetailedObservability", None, "true", OLD),
    ],
)  # fmt: skip
def test_a_change_that_may_alter_something_is_a_change(
    what: str, before: str | None, after: str | None, live: dict[str, Any]
) -> None:
    assert same_in_effect(what, before, after, picture(config=live)) is None


@pytest.mark.parametrize(("live", "stated"), [(OLD, None), (NEW, {"detailed_observability": True})])
def test_what_sagemaker_collects_by_the_day_of_creation_goes_on(
    live: dict[str, Any], stated: dict[str, bool] | None
) -> None:
    assert expressed(picture(config=live)).tables.get("metrics") == stated


def test_a_configuration_that_isolates_no_network_loses_nothing() -> None:
    listed = expressed(picture(config={"EnableNetworkIsolation": False})).not_carried
    assert not [row for row in listed if "EnableNetworkIsolation" in row.where]
