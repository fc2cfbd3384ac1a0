"""What is live as a template, and which changes of it are equivalent."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from servable.init.adoption.expressed import convert_live_endpoint
from servable.init.adoption.live_template import build_live_template, explain_harmless_change
from tests.servable.adoption.snapshots import IMAGE, URI, snapshot, target, tracking

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
    live = snapshot(targets=[target()], policies=[tracking(ScaleInCooldown=0)])
    properties = build_live_template(live, after)["Resources"]["Policy"]["Properties"]
    assert properties["TargetTrackingScalingPolicyConfiguration"]["ScaleInCooldown"] == 0


def test_a_variant_that_gets_no_traffic_gets_none_from_the_file() -> None:
    live = snapshot(variant={"InitialVariantWeight": 0.0}, endpoint={"ProductionVariants": []})
    assert convert_live_endpoint(live).tables["variants"]["AllTraffic"]["weight"] == 0.0


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
    assert explain_harmless_change(what, before, after, snapshot(config=live)) is not None


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
    assert explain_harmless_change(what, before, after, snapshot(config=live)) is None


@pytest.mark.parametrize(("live", "stated"), [(OLD, None), (NEW, {"detailed_observability": True})])
def test_what_sagemaker_collects_by_the_day_of_creation_goes_on(
    live: dict[str, Any], stated: dict[str, bool] | None
) -> None:
    assert convert_live_endpoint(snapshot(config=live)).tables.get("metrics") == stated


def test_a_configuration_that_isolates_no_network_loses_nothing() -> None:
    listed = convert_live_endpoint(snapshot(config={"EnableNetworkIsolation": False})).not_carried
    assert not [row for row in listed if "EnableNetworkIsolation" in row.where]


# --- the template of what is live

MODEL, TARGET = "AWS::SageMaker::Model", "AWS::ApplicationAutoScaling::ScalableTarget"
ENDPOINT = "AWS::SageMaker::Endpoint"
OWN_ROLE = "arn:aws:iam::123456789012:role/own"


def file_template(**more: Any) -> dict[str, Any]:
    """A template as a file's stack has it: the model, its configuration, the endpoint, and the scaling."""
    variant = {"VariantName": "AllTraffic", "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]}}
    parts = ["endpoint/", {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, "/variant/AllTraffic"]
    tracked = tracking()
    policy = {key: tracked[key] for key in
              ("PolicyType", "TargetTrackingScalingPolicyConfiguration")}  # fmt: skip
    return {"Resources": {
        "Model": {"Type": MODEL, "Properties": {}},
        "Config": {"Type": CONFIG, "Properties": {"ProductionVariants": [variant]}},
        "Endpoint": {"Type": ENDPOINT, "Properties": {
            "EndpointName": "new", "EndpointConfigName": {"Ref": "Config"}, "Tags": []}},
        "Target": {"Type": TARGET, "Properties": {
            "ResourceId": {"Fn::Join": ["", parts]},
            "RoleARN": {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, ":iam::1:role/own"]]}}},
        "Policy": {"Type": POLICY, "Properties": {
            **policy, "PolicyName": "ours", "ScalingTargetId": {"Ref": "Target"}}},
        "Topic": {"Type": "AWS::SNS::Topic"},
        **more}}  # fmt: skip


def live(after: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    template = build_live_template(snapshot(**more), after or file_template())
    resources: dict[str, Any] = template["Resources"]
    return {name: resource["Properties"] for name, resource in resources.items()}


def test_what_is_live_lies_under_the_file_s_names() -> None:
    found = live(config={"KmsKeyId": "key", "CreationTime": 1, "Tags": []})
    reference = {"Fn::GetAtt": ["Model", "ModelName"]}
    assert found["Config"] == {"KmsKeyId": "key", "ProductionVariants": [{
        "VariantName": "AllTraffic", "ModelName": reference, "InstanceType": "ml.c5.xlarge",
        "InitialInstanceCount": 2, "InitialVariantWeight": 1}]}  # fmt: skip
    assert found["Model"] == {
        "PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": URI, "Environment": {}},
        "ExecutionRoleArn": "arn:aws:iam::123456789012:role/sagemaker",
    }
    assert found["Endpoint"] == {
        "EndpointName": "ranker", "EndpointConfigName": {"Ref": "Config"}, "Tags": []}  # fmt: skip
    assert sorted(found) == ["Config", "Endpoint", "Model"]
    deployment = {"RollingUpdatePolicy": {"WaitIntervalInSeconds": 60}}
    found = live(endpoint={"LastDeploymentConfig": deployment})
    assert found["Endpoint"]["DeploymentConfig"] == deployment


def test_without_an_endpoint_the_name_is_not_live() -> None:
    without = replace(snapshot(), endpoint={})
    resources = build_live_template(without, file_template())["Resources"]
    assert "EndpointName" not in resources["Endpoint"]["Properties"]


def test_a_container_is_compared_as_the_file_writes_it() -> None:
    source = {"S3DataSource": {"S3Uri": URI, "S3DataType": "S3Object"}}
    listed = {"Image": IMAGE, "ModelDataSource": source, "ContainerHostname": "h", "Mode": "SingleModel",
              "ModelPackageName": "arn", "Environment": {"B": "2", "DB_PASSWORD": "hunter2"}}  # fmt: skip
    packed = {"Environment": {"A": "1", "B": "1"}}
    package = {"InferenceSpecification": {"Containers": [packed]}}
    model = {"PrimaryContainer": None, "Containers": [listed], "EnableNetworkIsolation": False}
    found = live(model=model, packages={"arn": package})["Model"]
    assert found == {
        "ExecutionRoleArn": "arn:aws:iam::123456789012:role/sagemaker",
        "PrimaryContainer": {
            "Image": IMAGE, "ModelDataUrl": URI, "ModelPackageName": "arn",
            "Environment": {"A": "1", "B": "2", "DB_PASSWORD": "(not shown)"}},
    }  # fmt: skip
    prefix = {"S3DataSource": {"S3Uri": "s3://team/many/"}}
    many = {"Mode": "MultiModel", "ModelDataUrl": None, "ModelDataSource": prefix}
    assert live(container=many)["Model"]["PrimaryContainer"] == {
        "Image": IMAGE, "Mode": "MultiModel", "ModelDataSource": prefix, "Environment": {}}  # fmt: skip


@pytest.mark.parametrize("reference", [{"Ref": "Model"}, {"Fn::GetAtt": ["Model", "x"]}, "Model"])
def test_a_model_is_found_by_any_reference(reference: Any) -> None:
    after = file_template()
    after["Resources"]["Config"]["Properties"]["ProductionVariants"][0]["ModelName"] = reference
    assert "Model" in live(after)


def test_a_live_variant_that_the_file_lacks_keeps_its_own_model() -> None:
    after = file_template()
    after["Resources"]["Config"]["Properties"] = {"ShadowProductionVariants": None}
    found = live(after)
    assert found["Config"]["ProductionVariants"][0]["ModelName"] == "ranker-1"
    assert "Model" not in found
    after = file_template()
    del after["Resources"]["Model"]
    assert "Model" not in live(after)


def test_a_pool_s_model_lies_under_the_file_s_name() -> None:
    reference = {"Fn::GetAtt": ["Wider", "ModelName"]}
    pools = [{"InstanceType": "ml.c5.xlarge", "ModelNameOverride": reference},
             {"InstanceType": "ml.c6i.xlarge"}]  # fmt: skip
    after = file_template(Wider={"Type": MODEL, "Properties": {}})
    after["Resources"]["Config"]["Properties"]["ProductionVariants"][0]["InstancePools"] = pools
    live_pools = [{"InstanceType": kind, "ModelNameOverride": "wider"}
                  for kind in ("ml.c5.xlarge", "ml.c6i.xlarge", "ml.m5.xlarge")]  # fmt: skip
    shown = snapshot(variant={"InstancePools": live_pools})
    shown = replace(shown, models={**shown.models, "wider": {"ExecutionRoleArn": "other"}})
    resources = build_live_template(shown, after)["Resources"]
    assert resources["Wider"]["Properties"]["ExecutionRoleArn"] == "other"
    variant = resources["Config"]["Properties"]["ProductionVariants"][0]
    overrides = [pool["ModelNameOverride"] for pool in variant["InstancePools"]]
    assert overrides == [reference, "wider", "wider"]


def test_a_live_target_has_the_file_s_identity_and_its_own_bounds_and_schedule() -> None:
    after = file_template()
    wanted = after["Resources"]["Target"]["Properties"]
    action = {
        "ResourceId": "endpoint/ranker/variant/AllTraffic",
        "Schedule": "rate(1 day)",
        "ScalableTargetAction": {"MinCapacity": 4},
        "StartTime": 7,
    }
    second = action | {"Timezone": "Europe/Berlin", "StartTime": None}
    del second["StartTime"], second["ScalableTargetAction"]
    other = action | {"ResourceId": "endpoint/ranker/variant/Other"}
    found = live(
        after,
        targets=[target(MinCapacity=0, RoleARN=OWN_ROLE)],
        scheduled=[other, action, second],
    )["Target"]
    assert (found["ResourceId"], found["RoleARN"]) == (wanted["ResourceId"], wanted["RoleARN"])
    assert (found["MinCapacity"], found["MaxCapacity"]) == (0, 4)
    assert found["ScheduledActions"] == [
        {"ScalableTargetAction": {"MinCapacity": 4}, "Schedule": "rate(1 day)",
         "ScheduledActionName": "Scheduled0", "Timezone": "UTC", "StartTime": "7"},
        {"ScalableTargetAction": {}, "Schedule": "rate(1 day)",
         "ScheduledActionName": "Scheduled1", "Timezone": "Europe/Berlin"},
    ]  # fmt: skip
    found = live(after, targets=[target(RoleARN="arn:aws:iam::1:role/else")])["Target"]
    assert (found["RoleARN"], "ScheduledActions" in found) == ("arn:aws:iam::1:role/else", False)
    other_target = target(ResourceId="endpoint/ranker/variant/Other")
    assert "Target" not in live(after, targets=[other_target])


def test_a_live_policy_is_the_file_s_of_the_same_metric() -> None:
    concurrent = tracking("SageMakerVariantConcurrentRequestsPerModelHighResolution", 4.0)
    concurrent["PolicyName"] = "by-concurrency"
    found = live(targets=[target()], policies=[concurrent, tracking(value=900.0)])
    assert found["Policy"] == {
        "PolicyName": "ours", "ScalingTargetId": {"Ref": "Target"},
        "PolicyType": "TargetTrackingScaling",
        "TargetTrackingScalingPolicyConfiguration": {
            "TargetValue": 900, "PredefinedMetricSpecification": {
                "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"}},
    }  # fmt: skip
    assert (found["by-concurrency"]["PolicyType"], "by-hand" in found) == (
        "TargetTrackingScaling", False)  # fmt: skip
    other = tracking() | {"ResourceId": "endpoint/ranker/variant/Other"}
    found = live(targets=[target()], policies=[other])
    assert ("Policy" in found, "by-hand" in found) == (False, True)


def test_targets_and_policies_that_the_file_lacks_are_live_under_their_own_names() -> None:
    other = "endpoint/ranker/variant/Other"
    found = live(targets=[target(), target(ResourceId=other, MaxCapacity=9)], policies=[tracking()])
    assert found[other]["MaxCapacity"] == 9
    assert sorted({"by-hand", "endpoint/ranker/variant/AllTraffic"} & {*found}) == []


@pytest.mark.parametrize(
    ("configuration", "same"),
    [
        ({"StepAdjustments": [{"ScalingAdjustment": 2}]}, True),
        ({"StepAdjustments": [{"ScalingAdjustment": -1}]}, False),
        ({"StepAdjustments": []}, False),
    ],
)
def test_step_policies_are_told_apart_by_their_direction(
    configuration: dict[str, Any], same: bool
) -> None:
    after = file_template()
    wanted = after["Resources"]["Policy"]["Properties"]
    del wanted["TargetTrackingScalingPolicyConfiguration"]
    wanted |= {"PolicyType": "StepScaling", "StepScalingPolicyConfiguration": {
        "StepAdjustments": [{"ScalingAdjustment": 1}]}}  # fmt: skip
    policy = tracking() | {"PolicyType": "StepScaling"}
    policy["StepScalingPolicyConfiguration"] = configuration
    del policy["TargetTrackingScalingPolicyConfiguration"]
    found = live(after, targets=[target()], policies=[policy])
    assert ("Policy" in found, "by-hand" in found) == (same, not same)


def test_custom_metrics_are_told_apart_by_their_names() -> None:
    after = file_template()
    wanted = after["Resources"]["Policy"]["Properties"]
    for name, same in (("Backlog", True), ("Other", False)):
        wanted["TargetTrackingScalingPolicyConfiguration"] = {
            "CustomizedMetricSpecification": {"MetricName": "Backlog"}}  # fmt: skip
        policy = tracking(CustomizedMetricSpecification={"MetricName": name})
        del policy["TargetTrackingScalingPolicyConfiguration"]["PredefinedMetricSpecification"]
        assert ("Policy" in live(after, targets=[target()], policies=[policy])) == same


def variable(name: str) -> str:
    return f"PrimaryContainer.Environment.{name}"


@pytest.mark.parametrize(
    ("what", "before", "after", "why"),
    [
        (variable("SERVABLE_ARTIFACT_SHA256"), None, "a" * 64, "names the archive's hash"),
        (variable("SERVABLE_ARTIFACT_SHA256"), "b" * 64, "a" * 64, None),
        (variable("SAGEMAKER_TFS_DEFAULT_MODEL_NAME"), None, "ranker", "names the model that"),
        (variable("SAGEMAKER_GUNICORN_WORKERS"), None, "1", "the image's default, now explicit"),
        (variable("SAGEMAKER_GUNICORN_WORKERS"), None, "2", None),
        (variable("SAGEMAKER_TFS_NUM_BATCH_THREADS"), None, "4", "the number of vCPUs"),
        (variable("SAGEMAKER_TFS_NUM_BATCH_THREADS"), None, "5", None),
        (variable("FEATURES"), None, "4", None),
        ("ProductionVariants[a].RoutingConfig.RoutingStrategy", None, "RANDOM", "default routing"),
        ("ProductionVariants[a].RoutingConfig.RoutingStrategy", None, "LEAST", None),
        ("Configuration.ScaleInCooldown", None, "300", "Application Auto Scaling's default"),
        ("Configuration.ScaleInCooldown", None, "60", None),
        ("ScheduledActions[a].Timezone", None, "UTC", "Application Auto Scaling's default"),
        ("ScheduledActions[a].Timezone", None, "300", None),
        ("ScheduledActions[a].Other", None, "UTC", None),
        ("RetainAllVariantProperties", None, "true", "applies only to updates"),
        ("RetainAllVariantProperties", "false", "true", None),
        ("DataCaptureConfig.EnableCapture", None, "false", None),
        ("Container.ModelPackageName", "arn:aws:sagemaker:x", "arn:${P}:sagemaker:x", "same version"),
        ("Container.ModelPackageName", "arn:aws:sagemaker:x", "arn:aws:sagemaker:y", None),
        ("EndpointName", "ranker", "new", "a new endpoint next to the live one"),
        ("X.Dimensions[EndpointName].Value", "other", "new", None),
        ("ProductionVariants[a].InitialInstanceCount", "1", "3", "number of running instances"),
        ("ProductionVariants[a].InitialInstanceCount", "1", "2", None),
        ("ProductionVariants[a].InitialVariantWeight", "0.5", "1", "the current weight"),
        ("ProductionVariants[a].InitialVariantWeight", "0.5", "1.0", "the current weight"),
        ("ProductionVariants[a].InitialVariantWeight", "0.5", "2", None),
        ("ProductionVariants[a].VolumeSizeInGB", "1", "3", None),
        (variable("SAGEMAKER_BIND_TO_PORT"), "8080", "8081", None),
    ],
)  # fmt: skip
def test_why_a_change_alters_nothing_is_told(
    what: str, before: str | None, after: str | None, why: str | None
) -> None:
    running = {"VariantName": "AllTraffic", "DesiredInstanceCount": 3}
    told = explain_harmless_change(
        what, before, after, snapshot(endpoint={"ProductionVariants": [running]})
    )
    assert (told is None) == (why is None)
    assert (why or "") in (told or "")


def test_capture_that_was_off_loses_nothing() -> None:
    off = {"DataCaptureConfig": {"EnableCapture": False, "DestinationS3Uri": "s3://x"}}
    told = explain_harmless_change(
        "DataCaptureConfig.DestinationS3Uri", "s3://x", None, snapshot(config=off)
    )
    assert told == "EnableCapture is false: nothing was captured"
    what = "DataCaptureConfig.DestinationS3Uri"
    assert explain_harmless_change(what, "s3://x", "s3://y", snapshot(config=off)) is None


def test_a_container_variable_is_the_same_with_its_key_beside_it() -> None:
    variable = "PrimaryContainer.Environment.SAGEMAKER_GUNICORN_TIMEOUT_SECONDS"
    for what in (variable, f"{variable} (container.gunicorn_timeout_seconds)"):
        told = explain_harmless_change(what, None, "30", snapshot())
        assert told == "the image's default, now explicit"
        assert explain_harmless_change(what, None, "31", snapshot()) is None
