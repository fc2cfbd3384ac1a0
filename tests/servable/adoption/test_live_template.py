"""What is live as a template, and which changes of it are equivalent."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from servable.init.adoption.live_template import build_live_template, explain_harmless_change
from tests.servable.adoption.snapshots import IMAGE, ROLE, URI, convert, snapshot, target, tracking

CONFIG, POLICY = "AWS::SageMaker::EndpointConfig", "AWS::ApplicationAutoScaling::ScalingPolicy"
BOTH_WAYS = '[{"CaptureMode": "InputAndOutput"}]'


def test_a_cooldown_of_zero_is_live_as_zero() -> None:
    wanted = tracking(ScaleInCooldown=0) | {"ScalingTargetId": {"Ref": "Target"}}
    after = {"Resources": {
        "Target": {"Type": TARGET, "Properties": target(RoleARN=OWN_ROLE)},
        "Policy": {"Type": POLICY, "Properties": wanted}}}  # fmt: skip
    found = live(after, targets=[target()], policies=[tracking(ScaleInCooldown=0)])["Policy"]
    assert found["TargetTrackingScalingPolicyConfiguration"]["ScaleInCooldown"] == 0


def test_no_traffic_no_isolation_and_metrics_by_the_day_of_creation_stay() -> None:
    idle = convert(variant={"InitialVariantWeight": 0.0}, endpoint={"ProductionVariants": []})
    assert idle.tables["variants"]["AllTraffic"]["weight"] == 0.0
    listed = convert(config={"EnableNetworkIsolation": False}).not_carried
    assert not [row for row in listed if "EnableNetworkIsolation" in row.where]
    name = "MetricsConfig.EnableDetailedObservability"
    for day, kept, stated in ((17, "false", None), (18, "true", True), (None, None, None)):
        config = {"CreationTime": datetime(2026, 6, day, 12, tzinfo=UTC)} if day else {}
        for value in ("false", "true"):
            told = explain_harmless_change(name, None, value, snapshot(config=config))
            assert told == ("SageMaker's default, now explicit" if value == kept else None)
        metrics = convert(config=config).tables.get("metrics", {})
        assert metrics.get("detailed_observability") == stated


# --- the template of what is live

MODEL, TARGET = "AWS::SageMaker::Model", "AWS::ApplicationAutoScaling::ScalableTarget"
ENDPOINT = "AWS::SageMaker::Endpoint"
OWN_ROLE = "arn:aws:iam::123456789012:role/own"


def file_template(**more: Any) -> dict[str, Any]:
    """A template as a file's stack has it: the model, its configuration, the endpoint, and the scaling."""
    variant = {"VariantName": "AllTraffic", "ModelName": {"Fn::GetAtt": ["Model", "ModelName"]}}
    parts = ["endpoint/", {"Fn::GetAtt": ["Endpoint", "EndpointName"]}, "/variant/AllTraffic"]
    keys = ("PolicyType", "TargetTrackingScalingPolicyConfiguration")
    policy = {key: tracking()[key] for key in keys}
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


def test_what_is_live_lies_under_the_file_s_names_or_its_own() -> None:
    found = live(config={"KmsKeyId": "key", "CreationTime": 1, "Tags": []})
    reference = {"Fn::GetAtt": ["Model", "ModelName"]}
    assert found["Config"] == {"KmsKeyId": "key", "ProductionVariants": [{
        "VariantName": "AllTraffic", "ModelName": reference, "InstanceType": "ml.c5.xlarge",
        "InitialInstanceCount": 2, "InitialVariantWeight": 1}]}  # fmt: skip
    assert found["Model"] == {
        "PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": URI, "Environment": {}},
        "ExecutionRoleArn": ROLE,
    }
    assert found["Endpoint"] == {
        "EndpointName": "ranker", "EndpointConfigName": {"Ref": "Config"}, "Tags": []}  # fmt: skip
    assert sorted(found) == ["Config", "Endpoint", "Model"]
    deployment = {"RollingUpdatePolicy": {"WaitIntervalInSeconds": 60}}
    found = live(endpoint={"LastDeploymentConfig": deployment})
    assert found["Endpoint"]["DeploymentConfig"] == deployment

    for reference in ({"Ref": "Model"}, {"Fn::GetAtt": ["Model", "x"]}, "Model"):
        after = file_template()
        config = after["Resources"]["Config"]["Properties"]
        config["ProductionVariants"][0]["ModelName"] = reference
        assert "Model" in live(after)
    after["Resources"]["Config"]["Properties"] = {"ShadowProductionVariants": None}
    found = live(after)
    assert found["Config"]["ProductionVariants"][0]["ModelName"] == "ranker-1"
    assert "Model" not in found
    after = file_template()
    del after["Resources"]["Model"]
    assert "Model" not in live(after)
    without = build_live_template(replace(snapshot(), endpoint={}), file_template())
    assert "EndpointName" not in without["Resources"]["Endpoint"]["Properties"]


def test_a_container_is_compared_as_the_file_writes_it() -> None:
    source = {"S3DataSource": {"S3Uri": URI, "S3DataType": "S3Object"}}
    listed = {"Image": IMAGE, "ModelDataSource": source, "ContainerHostname": "h", "Mode": "SingleModel",
              "ModelPackageName": "arn", "Environment": {"B": "2", "DB_PASSWORD": "hunter2"}}  # fmt: skip
    packed = {"Environment": {"A": "1", "B": "1"}}
    package = {"InferenceSpecification": {"Containers": [packed]}}
    model = {"PrimaryContainer": None, "Containers": [listed], "EnableNetworkIsolation": False}
    found = live(model=model, packages={"arn": package})["Model"]
    assert found == {
        "ExecutionRoleArn": ROLE,
        "PrimaryContainer": {
            "Image": IMAGE, "ModelDataUrl": URI, "ModelPackageName": "arn",
            "Environment": {"A": "1", "B": "2", "DB_PASSWORD": "(not shown)"}},
    }  # fmt: skip
    prefix = {"S3DataSource": {"S3Uri": "s3://team/many/"}}
    many = {"Mode": "MultiModel", "ModelDataUrl": None, "ModelDataSource": prefix}
    assert live(container=many)["Model"]["PrimaryContainer"] == {
        "Image": IMAGE, "Mode": "MultiModel", "ModelDataSource": prefix, "Environment": {}}  # fmt: skip


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
    action = target(Schedule="rate(1 day)", ScalableTargetAction={"MinCapacity": 4}, StartTime=7)
    second = target(Schedule="rate(1 day)", Timezone="Europe/Berlin")
    other = action | {"ResourceId": "endpoint/ranker/variant/Other"}
    targets = [target(MinCapacity=0, RoleARN=OWN_ROLE)]
    found = live(after, targets=targets, scheduled=[other, action, second])["Target"]
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
    elsewhere = target(ResourceId="endpoint/ranker/variant/Other")
    assert "Target" not in live(after, targets=[elsewhere])


def test_a_live_policy_is_the_file_s_of_the_same_metric_or_has_its_own_name() -> None:
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

    other = "endpoint/ranker/variant/Other"
    found = live(targets=[target(), target(ResourceId=other, MaxCapacity=9)], policies=[tracking()])
    assert found[other]["MaxCapacity"] == 9
    assert sorted({"by-hand", "endpoint/ranker/variant/AllTraffic"} & {*found}) == []


def test_step_policies_are_told_apart_by_their_direction_and_custom_metrics_by_name() -> None:
    after = file_template()
    wanted = after["Resources"]["Policy"]["Properties"]
    del wanted["TargetTrackingScalingPolicyConfiguration"]
    wanted |= {"PolicyType": "StepScaling", "StepScalingPolicyConfiguration": {
        "StepAdjustments": [{"ScalingAdjustment": 1}]}}  # fmt: skip
    policy = tracking() | {"PolicyType": "StepScaling"}
    del policy["TargetTrackingScalingPolicyConfiguration"]
    for adjustments, same in (
        ([{"ScalingAdjustment": 2}], True), ([{"ScalingAdjustment": -1}], False), ([], False)
    ):  # fmt: skip
        policy["StepScalingPolicyConfiguration"] = {"StepAdjustments": adjustments}
        found = live(after, targets=[target()], policies=[policy])
        assert ("Policy" in found, "by-hand" in found) == (same, not same)

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


def test_why_a_change_alters_nothing_is_told() -> None:
    cases: list[tuple[str, str | None, str | None, str | None]] = [
        (variable("SERVABLE_ARTIFACT_SHA256"), None, "a" * 64, "names the archive's hash"),
        (variable("SERVABLE_ARTIFACT_SHA256"), "b" * 64, "a" * 64, None),
        (variable("SAGEMAKER_TFS_DEFAULT_MODEL_NAME"), None, "ranker", "names the model that"),
        (variable("SAGEMAKER_GUNICORN_WORKERS"), None, "1", "the image's default, now explicit"),
        (variable("SAGEMAKER_GUNICORN_WORKERS"), None, "2", None),
        (variable("SAGEMAKER_TFS_NUM_BATCH_THREADS"), None, "4", "the number of vCPUs"),
        (variable("SAGEMAKER_TFS_NUM_BATCH_THREADS"), None, "5", None),
        (variable("FEATURES"), None, "4", None),
        (variable("FEATURES"), "4", None, None),
        (variable("SAGEMAKER_BIND_TO_PORT"), "8080", None, "the image doesn't use it"),
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
        ("DataCaptureConfig.EnableCapture", None, "true", "captured unless EnableCapture is false"),
        ("DataCaptureConfig.CaptureOptions", BOTH_WAYS, '[{"CaptureMode": "Input"}]', None),
        ("DataCaptureConfig.CaptureOptions", BOTH_WAYS,
         '[{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]', "equals Input and Output"),

        ("MetricsConfig.EnableEnhancedMetrics", None, "false", "SageMaker's default"),
        ("MetricsConfig.EnableEnhancedMetrics", None, "true", None),
        ("MetricsConfig.EnableEnhancedMetrics", "true", "false", None),
        ("MetricsConfig.MetricPublishFrequencyInSeconds", None, "60", "SageMaker's default"),
        ("Container.ModelPackageName", "arn:aws:sagemaker:x", "arn:${P}:sagemaker:x", "same version"),
        ("Container.ModelPackageName", "arn:aws:sagemaker:x", "arn:aws:sagemaker:y", None),
        ("EndpointName", "ranker", "new", "a new endpoint next to the live one"),
        ("X.Dimensions[EndpointName].Value", "other", "new", None),
        ("X.Dimensions[EndpointName].Value", "ranker", "new", "a new endpoint next to the live one"),
        ("ProductionVariants[a].InitialInstanceCount", "1", "3", "number of running instances"),
        ("ProductionVariants[a].InitialInstanceCount", "1", "2", None),
        ("ProductionVariants[a].InitialVariantWeight", "0.5", "1", "the current weight"),
        ("ProductionVariants[a].InitialVariantWeight", "0.5", "1.0", "the current weight"),
        ("ProductionVariants[a].InitialVariantWeight", "0.5", "2", None),
        ("ProductionVariants[a].VolumeSizeInGB", "1", "3", None),
        (variable("SAGEMAKER_BIND_TO_PORT"), "8080", "8081", None),
    ]  # fmt: skip
    for what, before, after, why in cases:
        running = {"VariantName": "AllTraffic", "DesiredInstanceCount": 3}
        live = snapshot(endpoint={"ProductionVariants": [running]})
        told = explain_harmless_change(what, before, after, live)
        assert ((told is None), (why or "") in (told or "")) == ((why is None), True)


def test_a_change_with_its_key_beside_it_or_of_capture_that_was_off() -> None:
    what, captured = "DataCaptureConfig.DestinationS3Uri", {"DestinationS3Uri": "s3://x"}
    for fields, after, why in (
        ({"EnableCapture": False}, None, "EnableCapture is false: nothing was captured"),
        ({"EnableCapture": False}, "s3://y", None),
        ({}, None, None),
    ):
        live = snapshot(config={"DataCaptureConfig": {**captured, **fields}})
        assert explain_harmless_change(what, "s3://x", after, live) == why
    timeout = variable("SAGEMAKER_GUNICORN_TIMEOUT_SECONDS")
    for what in (timeout, f"{timeout} (container.gunicorn_timeout_seconds)"):
        for after, why in (("30", "the image's default, now explicit"), ("31", None)):
            assert explain_harmless_change(what, None, after, snapshot()) == why
