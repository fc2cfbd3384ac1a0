"""An endpoint's configuration, tags, alarms and updates as keys of the file, and each rest in the list."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.live_fields import Effect, NotCarried
from servable.init.adoption.live_snapshot import LiveSnapshot
from servable.init.from_live import render_environment
from tests.servable.adoption import snapshots
from tests.servable.adoption.snapshots import ARCHIVE, IMAGE, Row, alarm, convert, rows, snapshot

KEY = "arn:aws:kms:us-east-1:123456789012:key/12345678-1234-1234-1234-123456789012"
BY_DAY = ("endpoint configuration: MetricsConfig.EnableDetailedObservability", "not set", "changed")
SERVERLESS: dict[str, Any] = {
    "InstanceType": None,
    "InitialInstanceCount": None,
    "ServerlessConfig": {"MemorySizeInMB": 2048, "MaxConcurrency": 10},
}
SHARED = {"SAGEMAKER_GUNICORN_WORKERS": "2"}
POOLS: list[dict[str, Any]] = [
    {"InstanceType": "ml.c5.xlarge", "Priority": 2, "ModelNameOverride": "wider"},
    {"InstanceType": "ml.c6i.xlarge", "Priority": 1},
]
SUBNETS = ["subnet-0a1b2c3d", "subnet-4e5f6071"]


CAPTURE = {
    "EnableCapture": True,
    "InitialSamplingPercentage": 20,
    "DestinationS3Uri": "s3://team/captured",
    "KmsKeyId": KEY,
    "CaptureOptions": [{"CaptureMode": "Input"}],
    "CaptureContentTypeHeader": {
        "CsvContentTypes": ["text/csv"], "JsonContentTypes": ["application/json", "application/jsonlines"]},
}  # fmt: skip
TO_BUCKET = ("data capture: DestinationS3Uri", "s3://team/captured", "changed")
COMPUTED = "deployment configuration: {}"
LINEAR = {"BlueGreenUpdatePolicy": {
    "TerminationWaitInSeconds": 0, "MaximumExecutionTimeoutInSeconds": 3600,
    "TrafficRoutingConfiguration": {
        "Type": "LINEAR", "WaitIntervalInSeconds": 300,
        "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 25}}}}  # fmt: skip
ROLLING = {"RollingUpdatePolicy": {
    "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25}, "WaitIntervalInSeconds": 120,
    "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 50}}}  # fmt: skip


def express(**live: Any) -> tuple[dict[str, Any], list[Row]]:
    """Return the tables, and the list without the row about the day of creation."""
    result = convert(**live)
    return result.tables, [row for row in rows(result) if row != BY_DAY]


def variant(**fields: Any) -> dict[str, Any]:
    table: dict[str, Any] = express(variant=fields)[0]["variants"]["AllTraffic"]
    return table


# --- instances
def test_instances_in_force_and_core_dumps_are_the_file_s() -> None:
    running = {"VariantName": "AllTraffic", "DesiredWeight": 0.5, "DesiredInstanceCount": 3}
    tables, listed = express(endpoint={"ProductionVariants": [running]})
    table = tables["variants"]["AllTraffic"]
    assert (table["weight"], table["min_instances"]) == (0.5, 3)
    assert listed == [
        ("variant AllTraffic: InitialVariantWeight", 1.0, "changed"),
        ("variant AllTraffic: InitialInstanceCount", 2, "changed"),
    ]
    same = {"VariantName": "AllTraffic", "DesiredWeight": 1.0, "CurrentInstanceCount": 2}
    assert express(endpoint={"ProductionVariants": [same]})[1] == []

    uri, where = "s3://team/dumps/", "variant AllTraffic: CoreDumpConfig.DestinationS3Uri"
    for dumps, stated, rest in (
        ({"DestinationS3Uri": uri[:-1], "KmsKeyId": KEY}, {"uri": uri, "kms_key": KEY},
         [(where, uri[:-1], "changed")]),
        ({"DestinationS3Uri": uri}, {"uri": uri}, []),
    ):  # fmt: skip
        tables, listed = express(variant={"CoreDumpConfig": dumps})
        assert (tables["variants"]["AllTraffic"]["core_dumps"], listed) == (stated, rest)


def test_a_variant_is_serverless_a_shadow_of_pools_or_has_sagemaker_s_own_numbers() -> None:
    table = variant(**SERVERLESS)
    assert table["serverless"] == {"memory_mib": 2048, "max_concurrency": 10}
    assert [key for key in ("min_instances", "instance_type", "routing") if key in table] == []
    table = variant(InitialVariantWeight=None, InitialInstanceCount=None)
    assert (table["weight"], table["min_instances"]) == (1.0, 1)
    shadow = {"VariantName": "next", "ModelName": "ranker-1", "InstanceType": "ml.c5.xlarge"}
    tables, _ = express(config={"ShadowProductionVariants": [shadow]})
    assert [table.get("shadow") for table in tables["variants"].values()] == [None, True]

    provisioned = {**SERVERLESS["ServerlessConfig"], "ProvisionedConcurrency": 2}
    fields = SERVERLESS | {"ServerlessConfig": provisioned}
    assert variant(**fields)["serverless"]["provisioned_concurrency"] == 2
    counts = "sagemaker:variant:DesiredProvisionedConcurrency"
    used = snapshots.tracking("SageMakerVariantProvisionedConcurrencyUtilization", 0.7)
    targets = [snapshots.target(ScalableDimension=counts, MinCapacity=3, MaxCapacity=6)]
    tables, _ = express(variant=fields, targets=targets, policies=[used])
    assert tables["variants"]["AllTraffic"]["serverless"] == {
        "memory_mib": 2048, "max_concurrency": 10,
        "provisioned_concurrency": 3, "max_provisioned_concurrency": 6,
    }  # fmt: skip

    own = {**SHARED, "OMP_NUM_THREADS": "8"}
    result = convert_live_endpoint(pools_of(Environment=own))
    assert result.tables["variants"]["AllTraffic"]["instance_pools"] == [
        {"instance_type": "ml.c6i.xlarge"},
        {"instance_type": "ml.c5.xlarge", "container": {"omp_threads": 8}},
    ]
    assert list(result.tables["models"]) == ["ranker"]
    assert [where for where, *_ in rows(result) if "ModelNameOverride" in where] == []
    several = [*POOLS, POOLS[0] | {"InstanceType": "ml.m5.xlarge", "Priority": 3}]
    for differing in (
        {"ModelDataUrl": "s3://team/other/model.tar.gz"},
        {"Image": "1.dkr.ecr.us-east-1.amazonaws.com/own:1"},
        {"Environment": {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "other"}},
    ):
        result = convert_live_endpoint(pools_of(several, **differing))
        found = [row for row in rows(result) if row[0].endswith(": ModelNameOverride")]
        assert found == [(f"instance type {each}: ModelNameOverride", "wider", "lost")
                         for each in ("ml.c5.xlarge", "ml.m5.xlarge")]  # fmt: skip
        assert list(result.tables["models"]) == ["ranker"]


def pools_of(pools: list[dict[str, Any]] = POOLS, **wider: Any) -> LiveSnapshot:
    shared = {"Environment": SHARED}
    live = snapshot(container=shared, variant={"InstanceType": None, "InstancePools": pools})
    first = live.models["ranker-1"]
    container = {**first["PrimaryContainer"], **wider}
    second = {**first, "ModelName": "wider", "PrimaryContainer": container}
    return replace(live, models={**live.models, "wider": second})


# --- what is around the variants
def test_keys_days_and_one_network_are_the_endpoint_s() -> None:
    group = {"logGroupName": "/x", "kmsKeyId": KEY, "retentionInDays": 7}
    tables, listed = express(config={"KmsKeyId": KEY}, log_group=group)
    del tables["endpoint"]["execution_role"]
    assert tables["endpoint"] == {
        "name": "ranker", "volume_kms_key": KEY, "log_kms_key": KEY, "log_retention_days": 7
    }  # fmt: skip
    assert listed == []

    for days, kept in ((None, "for ever"), (6, "6 days")):
        group = {"logGroupName": "/x", "kmsKeyId": "no-arn", "retentionInDays": days}
        tables, listed = express(log_group=group)
        assert {"log_kms_key", "log_retention_days"} & {*tables["endpoint"]} == set()
        assert listed == [("log group /x: retention", kept, "changed")]

    vpc = {"VpcConfig": {"Subnets": SUBNETS, "SecurityGroupIds": ["sg-0a1b2c3d"]}}
    tables, listed = express(model=vpc)
    network = {"subnets": SUBNETS, "security_groups": ["sg-0a1b2c3d"]}
    assert (tables["network"], listed) == (network, [])
    live, differs = pools_of(), [("models: VpcConfig", "changed")]
    for names, stated, listed in (
        (["ranker-1"], network, differs),
        (["wider"], None, differs),
        (["ranker-1", "wider"], network, []),
    ):
        models = {**live.models, **{name: {**live.models[name], **vpc} for name in names}}
        both = convert_live_endpoint(replace(live, models=models))
        found = [(where, effect) for where, _, effect in rows(both) if "VpcConfig" in where]
        assert (found, both.tables.get("network")) == (listed, stated)


def test_capture_and_asynchronous_inference_are_tables_and_the_rest_is_listed() -> None:
    for modes, requests, answers in (
        (["Input"], True, False),
        (["Output"], False, True),
        (["Input", "Output"], True, True),
        (["InputAndOutput"], True, True),
    ):
        options = {"CaptureOptions": [{"CaptureMode": mode} for mode in modes]}
        tables, listed = express(config={"DataCaptureConfig": CAPTURE | options})
        assert tables["capture"] == {
            "sample_percent": 20, "requests": requests, "answers": answers, "kms_key": KEY
        }  # fmt: skip
        assert listed == [TO_BUCKET]

    capture = CAPTURE | {"KmsKeyId": "alias/own", "InitialSamplingPercentage": 0,
                         "CaptureContentTypeHeader": None}  # fmt: skip
    tables, listed = express(config={"DataCaptureConfig": capture})
    assert (tables["capture"]["sample_percent"], "kms_key" in tables["capture"]) == (1, False)
    assert listed == [
        ("data capture: InitialSamplingPercentage", 0, "changed"),
        ("data capture: KmsKeyId", "alias/own", "changed"),
        ("data capture: CaptureContentTypeHeader", None, "changed"),
        TO_BUCKET,
    ]
    tables, listed = express(config={"DataCaptureConfig": CAPTURE | {"EnableCapture": False}})
    assert "capture" not in tables
    assert listed == [("DataCaptureConfig", "s3://team/captured", "none")]
    header = {"CaptureContentTypeHeader": {"CsvContentTypes": ["text/x"]}, "KmsKeyId": None}
    _, listed = express(config={"DataCaptureConfig": CAPTURE | header})
    where = "data capture: CaptureContentTypeHeader.CsvContentTypes"
    assert listed == [
        ("data capture: KmsKeyId", "not set", "changed"), TO_BUCKET, (where, ["text/x"], "changed")
    ]  # fmt: skip

    out = {"S3OutputPath": "s3://team/out/", "KmsKeyId": KEY}
    queue = {"ClientConfig": {"MaxConcurrentInvocationsPerInstance": 4}, "OutputConfig": out}
    tables, listed = express(config={"AsyncInferenceConfig": queue})
    stated = {"max_concurrent_invocations_per_instance": 4, "kms_key": KEY}
    to_bucket = ("asynchronous inference: OutputConfig.S3OutputPath", "s3://team/out/", "changed")
    assert (tables["asynchronous"], listed) == (stated, [to_bucket])
    tables, listed = express(config={"AsyncInferenceConfig": {"OutputConfig": {}}})
    assert (tables["asynchronous"], listed) == (
        {}, [("asynchronous inference: KmsKeyId", "not set", "changed")])  # fmt: skip


def test_metrics_and_tags_are_the_file_s_or_listed() -> None:
    stated = {"EnableDetailedObservability": False, "EnableEnhancedMetrics": True,
              "MetricPublishFrequencyInSeconds": 30}  # fmt: skip
    result = convert(config={"MetricsConfig": stated})
    assert result.tables["metrics"] == {
        "detailed_observability": False, "enhanced_metrics": True, "publish_seconds": 30
    }  # fmt: skip
    assert rows(result) == []

    new = {"CreationTime": datetime(2026, 6, 18, 12, tzinfo=UTC)}
    result = convert(config=new, variant=SERVERLESS)
    assert ("metrics" in result.tables, BY_DAY in rows(result)) == (False, True)
    old = {"CreationTime": datetime(2026, 6, 17, 12, tzinfo=UTC)}
    assert (rows(convert(config=old)), rows(convert())) == ([], [BY_DAY])

    tables, listed = express(
        tags={"team": "ranking", "aws:x": "1"},
        other_tags={"model m": {"team": "ranking", "aws:y": "2"}, "model n": {"team": "search"}},
    )
    lost = ("model n: tag team", "search", "lost")
    assert (tables["tags"], listed) == ({"team": "ranking"}, [("tag aws:x", "1", "none"), lost])
    tables, listed = express(other_tags={"model n": {"team": "search"}})
    assert ("tags" in tables, listed) == (False, [lost])


# --- alarms and updates


def slow(name: str = "slow", threshold: float = 150_000.0, **more: Any) -> dict[str, Any]:
    return alarm("ModelLatency", "p99", threshold, **{"AlarmName": name, **more})


def test_what_differs_in_an_alarm_is_listed_and_one_that_no_key_makes_stays_outside() -> None:
    operator = "GreaterThanOrEqualToThreshold"
    differing: list[tuple[dict[str, Any], str | None]] = [
        ({"Period": 120, "EvaluationPeriods": 3}, "periods of 120 s; in the file: 60"),
        ({"DatapointsToAlarm": 2}, "2 of 3 periods"),
        ({"DatapointsToAlarm": 3}, None),
        ({"ComparisonOperator": operator}, f"{operator}; in the file: GreaterThanThreshold"),
        ({"TreatMissingData": None}, "TreatMissingData missing; in the file: notBreaching"),
        ({}, None),
    ]
    for change, difference in differing:
        tables, listed = express(alarms=[slow(**change)])
        assert tables["alarms"]["p99_latency_ms"] == 150.0
        assert listed == ([("alarm slow", difference, "changed")] if difference else [])
    endpoint, variant = slow()["Dimensions"]
    for outside in (
        slow(Dimensions=[endpoint]),
        slow(Dimensions=[endpoint, variant | {"Value": "Other"}]),
        slow(Dimensions=[endpoint, variant, {"Name": "More", "Value": "1"}]),
        slow(threshold=0.0),
        slow(ComparisonOperator="LessThanThreshold"),
        alarm("ModelLatency", "Average", 150_000.0, AlarmName="slow"),
        alarm("Invocation5XXErrors", "Sum", 5.0, AlarmName="slow"),
        alarm("Invocation5XXErrors", "Average", 1.0, AlarmName="slow"),
        alarm("CPUUtilization", "Average", 400.0, AlarmName="slow"),
    ):
        tables, listed = express(alarms=[outside])
        assert "alarms" not in tables
        assert listed == [("alarm slow", outside["MetricName"], "none")]


def test_thresholds_windows_and_actions_of_alarms() -> None:
    five = {"EvaluationPeriods": 5}
    errors = alarm("Invocation5XXErrors", "Average", 0.02, **five)
    busy = alarm("CPUUtilization", "Average", 320.0, **five)
    for alarms, window, live, in_file in (
        ([slow(), errors, busy], 5, 3, 5),
        ([slow(EvaluationPeriods=90)], None, 90, 3),
        ([slow(EvaluationPeriods=60)], 60, 60, 60),
        ([slow(EvaluationPeriods=1)], 1, 1, 1),
    ):
        tables, listed = express(alarms=alarms)
        assert tables["alarms"].get("window_minutes") == window
        said = f"a window of {live} minutes; in the file: {in_file}"
        assert listed == [("alarm slow", said, "changed")] * (live != in_file)
    average = alarm("MemoryUtilization", "Maximum", 75.0)
    assert express(alarms=[errors, busy, average])[0]["alarms"] == {
        "error_5xx_percent": 2.0, "cpu_percent": 80.0, "memory_percent": 75.0, "window_minutes": 5
    }  # fmt: skip

    tables, listed = express(alarms=[slow(), slow("slower", 300_000.0), slow("again")])
    assert tables["alarms"]["p99_latency_ms"] == 150.0
    assert listed == [("alarm slower", 300.0, "changed")]

    tables, listed = express(
        alarms=[slow(AlarmActions=["arn:1", "arn:2"])],
        composites=[{"AlarmName": "page", "AlarmRule": "ALARM(slow)"}],
    )
    assert tables["alarms"] == {"p99_latency_ms": 150.0, "window_minutes": 3}
    assert listed == [
        ("alarm page", "ALARM(slow)", "none"), ("alarm slow", "arn:1, arn:2", "changed")]  # fmt: skip

    above, cpu = slow(threshold=1_000_000.0), alarm("CPUUtilization", "Average", 399.0)
    assert express(alarms=[above])[0]["alarms"]["p99_latency_ms"] == 1000.0
    assert express(alarms=[cpu])[0]["alarms"]["cpu_percent"] == 99.75
    tables, listed = express(alarms=[cpu], variant=SERVERLESS)
    assert ("alarms" in tables, listed[0][2]) == (False, "none")


def test_an_update_s_policy_is_the_rollout_or_listed_as_a_whole() -> None:
    tables, listed = express(endpoint={"LastDeploymentConfig": LINEAR})
    assert tables["rollout"] == {"strategy": "linear", "bake_minutes": 5, "step_percent": 25}
    assert listed == [
        (COMPUTED.format("TerminationWaitInSeconds"), 0, "changed"),
        (COMPUTED.format("MaximumExecutionTimeoutInSeconds"), 3600, "changed"),
    ]
    canary = {
        "Type": "CANARY", "WaitIntervalInSeconds": 600,
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
    }  # fmt: skip
    at_once, waits = {"Type": "ALL_AT_ONCE"}, {"TerminationWaitInSeconds": 300}
    short = {key: value for key, value in canary.items() if key != "WaitIntervalInSeconds"}
    for routing, more, rollout in (
        (canary, {}, {"strategy": "canary", "canary_percent": 10, "bake_minutes": 10}),
        (short, {}, {"strategy": "canary", "canary_percent": 10, "bake_minutes": 0}),
        (at_once, {}, {"strategy": "all_at_once", "bake_minutes": 0}),
        (at_once, waits, {"strategy": "all_at_once", "bake_minutes": 5}),
    ):
        policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing, **more}}
        assert express(endpoint={"LastDeploymentConfig": policy})[0]["rollout"] == rollout
    size = {"MaximumBatchSize": canary["CanarySize"], "WaitIntervalInSeconds": 0}
    tables, _ = express(endpoint={"LastDeploymentConfig": {"RollingUpdatePolicy": size}})
    assert tables["rollout"]["rollback_batch_percent"] == 100
    rollback = {"AutoRollbackConfiguration": {"Alarms": [{"AlarmName": "slow"}]}}
    tables, listed = express(endpoint={"LastDeploymentConfig": ROLLING | rollback})
    assert tables["rollout"] == {
        "strategy": "rolling", "batch_percent": 25, "rollback_batch_percent": 50, "bake_minutes": 2
    }  # fmt: skip
    assert listed == [
        (COMPUTED.format("AutoRollbackConfiguration"), "slow", "changed"),
        (COMPUTED.format("MaximumExecutionTimeoutInSeconds"), "not set", "changed"),
    ]
    one, tenth = {"Type": "INSTANCE_COUNT", "Value": 1}, canary["CanarySize"]
    rolling: list[dict[str, Any]] = [
        {"WaitIntervalInSeconds": 90},
        {"WaitIntervalInSeconds": None},
        {"RollbackMaximumBatchSize": one},
    ]
    blue_green: list[dict[str, Any]] = [
        {"WaitIntervalInSeconds": 61, "CanarySize": tenth},
        {"WaitIntervalInSeconds": 600, "CanarySize": one},
        {},
        {"Type": "OTHER"},
    ]
    for kind, policy in [
        *(("Rolling", ROLLING["RollingUpdatePolicy"] | change) for change in rolling),
        *(("BlueGreen", {"TrafficRoutingConfiguration": {"Type": "CANARY"} | routing})
          for routing in blue_green),
    ]:  # fmt: skip
        tables, listed = express(endpoint={"LastDeploymentConfig": {f"{kind}UpdatePolicy": policy}})
        assert "rollout" not in tables
        assert listed == [("deployment configuration", policy, "lost")]


def test_what_a_key_does_not_take_is_lost_and_what_is_chosen_where_nothing_is_set_listed() -> None:
    tables, listed = express(config={"MetricsConfig": {"MetricPublishFrequencyInSeconds": 7}})
    assert tables["metrics"] == {}
    assert listed == [("key metrics.publish_seconds", 7, "lost")]
    with pytest.raises(PackagingError, match="rejects this value.*write the file by hand"):
        convert_live_endpoint(replace(snapshot(), account="12"))

    threads = {"Environment": {"SAGEMAKER_TFS_ENABLE_BATCHING": "true"}}
    tables, listed = express(container=threads)
    assert tables["variants"]["AllTraffic"]["container"]["batching"] == {
        "batch_threads": 4, "max_enqueued_batches": 4}  # fmt: skip
    own = {"Environment": {**threads["Environment"], "SAGEMAKER_TFS_NUM_BATCH_THREADS": "2"}}
    batching = express(container=own)[0]["variants"]["AllTraffic"]["container"]["batching"]
    assert batching == {"batch_threads": 2, "max_enqueued_batches": 4}
    assert listed == []
    image = IMAGE.replace("-cpu-", "-gpu-")
    large = replace(ARCHIVE, size_bytes=10**10, size_gib=30.0)
    gpu = {"InstanceType": "ml.g5.2xlarge"}
    tables, listed = express(variant=gpu, container={"Image": image}, archive=large)
    assert tables["models"]["ranker"]["tensorflow"] == "2.20"
    keys = ("inference_ami", "download_timeout_seconds", "startup_timeout_seconds")
    assert listed == [(f"variant AllTraffic: {key}", None, "changed") for key in keys]


def test_the_text_lists_what_is_not_carried_by_its_effect() -> None:
    effects: tuple[Effect, ...] = ("none", "lost")
    long = "long " * 30
    listed = [NotCarried(f"{effect} {long}end", None, "r", effect) for effect in effects]
    tables = {"models": {"m": {"a": {"b": 1}, "z": 1}}, "account": "1"}
    expressed = Expressed(tables=tables, not_carried=listed, sources={})
    text = render_environment(expressed, source="endpoint x")
    lines = text.splitlines()
    assert lines[:2] == [
        "#:schema ./schema.json",
        "# Written by `servable init` from endpoint x. Settings not covered are listed last.",
    ]
    heads = [line for line in lines if line.endswith(":") and line.startswith("# ")]
    assert heads == ["# Not carried over:", "# Equivalent, or configured outside the file:"]
    wrapped = lines[lines.index(heads[0]) + 1 : lines.index(heads[1])]
    assert (wrapped[0][:8], wrapped[1][:5], len(wrapped)) == ("# - lost", "#   l", 2)
    assert (max(map(len, lines)) <= 100, text.endswith("end: r\n")) == (True, True)
    assert lines.index("z = 1") < lines.index("b = 1")
