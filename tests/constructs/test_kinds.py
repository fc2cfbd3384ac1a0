"""Variants of every kind in the template, their metrics and scaling, and what nobody asks for absent."""

import inspect
import re
from typing import Any

import pytest

from infra.constructs.endpoint.variant import EndpointVariant
from servable_local.aws.loopback import load_service_model
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.constructs.conftest import CALLERS, Synthesise, Synthesised, with_keys

CONFIG = "AWS::SageMaker::EndpointConfig"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
SCALING = "[variants.primary.scaling]\n"
SHADOW = VALID + (
    '[variants.copy]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\nshadow = true\nweight = 0.5\n'
)
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 9 }"
)
QUEUE = VALID + "[asynchronous]\n"


def variant(found: Synthesised) -> dict[str, Any]:
    (one,) = found.one(CONFIG)["ProductionVariants"]
    return dict(one)


def test_adoption_knows_every_property_that_a_variant_has() -> None:
    source = inspect.getsource(EndpointVariant).replace("_", "")
    names = set(re.findall(r"^ +(\w+)=", source, re.MULTILINE))
    files = (ROOT / "servable/init/adoption").glob("expressed*.py")
    known = "".join(file.read_text() for file in files)
    fields = load_service_model("sagemaker").shape_for("ProductionVariant").members
    # Of components, which aren't adopted, and what only an app of its own has.
    unknown = [name for name in fields if name.lower() in names and name not in known]
    assert unknown == ["ManagedInstanceScaling", "CapacityReservationConfig"]


def alarm(found: Synthesised, name: str) -> dict[str, Any]:
    return {each["AlarmName"]: each for each in found.all("AWS::CloudWatch::Alarm")}[name]


def steps(found: Synthesised) -> list[list[dict[str, Any]]]:
    key = "StepScalingPolicyConfiguration"
    return [one[key]["StepAdjustments"] for one in found.all(POLICY) if key in one]


def test_what_nobody_asks_for_is_absent(synthesise: Synthesise) -> None:
    plain, config = variant(synthesise()), synthesise().one(CONFIG)
    absent = {"AsyncInferenceConfig", "ShadowProductionVariants", "DataCaptureConfig", "KmsKeyId"}
    assert not absent & set(config)
    assert not {"ServerlessConfig", "EnableSSMAccess", "VolumeSizeInGB"} & set(plain)
    model = synthesise().one("AWS::SageMaker::Model")
    assert not {"VpcConfig", "EnableNetworkIsolation"} & set(model)
    assert plain["RoutingConfig"] == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    asked = variant(synthesise(VALID + 'ssm_access = true\nrouting = "random"\n'))
    assert asked["EnableSSMAccess"] is True
    assert asked["RoutingConfig"] == {"RoutingStrategy": "RANDOM"}


@pytest.mark.long
def test_metrics_are_published_as_the_file_says_and_always_stated(synthesise: Synthesise) -> None:
    """What SageMaker does without MetricsConfig depends on the day of creation."""
    asked = "[metrics]\ndetailed_observability = true\nenhanced_metrics = true\npublish_seconds = "
    for text, detailed, enhanced, seconds in [
        (VALID, False, False, 60),
        (SERVERLESS, False, False, 60),
        (f"{VALID}{asked}10\n", True, True, 10),
    ]:
        assert synthesise(text).one(CONFIG)["MetricsConfig"] == {
            "EnableDetailedObservability": detailed,
            "EnableEnhancedMetrics": enhanced,
            "MetricPublishFrequencyInSeconds": seconds,
        }
    scaled = f"{VALID}max_instances = 6\n{SCALING}steps = [{{ above_rps = 150, change = 4 }}]\n"
    found = alarm(synthesise(f"{scaled}{asked}120\n"), "ranker-primary-steps-out")
    # Steps count the requests of the period in which they are published.
    assert (found["Threshold"], found["Period"], found["EvaluationPeriods"]) == (18_000, 120, 2)


def test_a_shadow_takes_back_no_update_and_pages_nobody(synthesise: Synthesise) -> None:
    found = synthesise(SHADOW + '[rollout]\nstrategy = "canary"\ncanary_percent = 50\n')
    (one,) = found.one(CONFIG)["ShadowProductionVariants"]
    assert (one["VariantName"], one["InitialVariantWeight"]) == ("copy", 0.5)
    alarms = [each["AlarmName"] for each in found.all("AWS::CloudWatch::Alarm")]
    assert not [name for name in alarms if name.startswith("ranker-rollback-copy")]
    assert "copy" not in str(found.one("AWS::CloudWatch::CompositeAlarm")["AlarmRule"])


def test_a_serverless_variant_has_memory_and_nothing_of_instances(synthesise: Synthesise) -> None:
    found = variant(synthesise(SERVERLESS))
    assert found == {
        "VariantName": "primary",
        "ModelName": found["ModelName"],
        "InitialVariantWeight": 1,
        "ServerlessConfig": {"MaxConcurrency": 9, "MemorySizeInMB": 2048},
    }
    endpoint = synthesise(SERVERLESS).one("AWS::SageMaker::Endpoint")
    assert "RetainAllVariantProperties" not in endpoint

    provisioned = "concurrency = 9, provisioned_concurrency = 2, max_provisioned_concurrency = 8"
    text = SERVERLESS.replace("concurrency = 9", provisioned)
    target = synthesise(f"{text}{SCALING}provisioned_use_percent = 70\n").one(TARGET)
    assert target["ScalableDimension"] == "sagemaker:variant:DesiredProvisionedConcurrency"
    assert (target["MinCapacity"], target["MaxCapacity"]) == (2, 8)


def test_a_queue_answers_into_the_data_stack_and_tells_two_topics(synthesise: Synthesise) -> None:
    found = synthesise(with_keys("endpoint", CALLERS, QUEUE))
    assert "RoutingConfig" not in variant(found)
    output = found.one(CONFIG)["AsyncInferenceConfig"]["OutputConfig"]
    bucket = ["s3://", {"Fn::ImportValue": "prod-data-queue"}]
    assert output["S3OutputPath"] == {"Fn::Join": ["", [*bucket, "/answers"]]}
    assert output["S3FailurePath"] == {"Fn::Join": ["", [*bucket, "/failures"]]}
    assert sorted(output["NotificationConfig"]) == ["ErrorTopic", "SuccessTopic"]
    # Its callers may queue and not invoke.
    statements = found.one("AWS::IAM::ManagedPolicy")["PolicyDocument"]["Statement"]
    keys = ["kms:Decrypt", "kms:GenerateDataKey"]
    allowed = ["sagemaker:InvokeEndpointAsync", "s3:PutObject", "s3:GetObject", keys]
    assert [one["Action"] for one in statements] == allowed
    # And use the key through S3 alone.
    through_s3 = {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}
    assert statements[-1]["Condition"] == {"StringEquals": through_s3}


@pytest.mark.long
def test_a_queue_waits_without_an_instance_until_the_first_request(synthesise: Synthesise) -> None:
    empty = f"{VALID}min_instances = 0\nmax_instances = 4\n{SCALING}max_backlog_per_instance = 10\n"
    found = synthesise(empty + "[asynchronous]\n")
    assert variant(found)["InitialInstanceCount"] == 1
    assert found.one(TARGET)["MinCapacity"] == 0
    key = "TargetTrackingScalingPolicyConfiguration"
    (tracking,) = [one[key] for one in found.all(POLICY) if key in one]
    tracked = tracking["CustomizedMetricSpecification"]
    assert tracked["MetricName"] == "ApproximateBacklogSizePerInstance"
    assert tracked["Dimensions"] == [{"Name": "EndpointName", "Value": "ranker"}]
    waking = alarm(found, "ranker-primary-wake-up")
    # No data is published while instances run, and the alarm keeps its state then.
    assert waking["TreatMissingData"] == "missing"
    assert (waking["EvaluationPeriods"], waking["Period"]) == (2, 60)
    assert waking["MetricName"] == "HasBacklogWithoutCapacity"
    assert steps(found) == [[{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]]
    one = empty.replace("min_instances = 0", "min_instances = 1")
    assert steps(synthesise(one + "[asynchronous]\n")) == []


def test_a_minute_without_requests_scales_in_and_on_hold_nothing(synthesise: Synthesise) -> None:
    scaled = f"{VALID}min_instances = 2\nmax_instances = 12\n{SCALING}"
    found = synthesise(f"{scaled}steps = [{{ below_rps = 10, change = -1 }}]\n")
    metrics = alarm(found, "ranker-primary-steps-in")["Metrics"]
    assert "FILL(requests, 0)" in [metric.get("Expression") for metric in metrics]

    found = synthesise(f"{scaled}max_rps_per_instance = 10\nhold = true\n")
    assert (found.all(TARGET), found.all(POLICY)) == ([], [])
    # An update keeps the live number.
    excluded = found.one("AWS::SageMaker::Endpoint")["ExcludeRetainedVariantProperties"]
    assert excluded == [{"VariantPropertyType": "DesiredWeight"}]
