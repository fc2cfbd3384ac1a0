"""The endpoint and its variants of every kind, updates, callers, what outlives it, and what synth says."""

import inspect
import re
from typing import Any

import pytest
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match

from infra.constructs.endpoint.endpoint import Endpoint
from infra.constructs.endpoint.variant import EndpointVariant
from servable_local.aws.loopback import load_service_model
from tests.checkouts import ROOT
from tests.conftest import VALID, Environment
from tests.constructs.conftest import CALLERS, Synthesise, Synthesised, stack_of, with_keys

CONFIG = "AWS::SageMaker::EndpointConfig"
CANARY = VALID + '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
ROLE = 'execution_role = "arn:aws:iam::111111111111:role/company/serving"'
TABLE = "[variants.primary.scaling]\n"
SCALING = f"{TABLE}max_rps_per_instance = 10\n"


def update(synthesise: Synthesise, text: str) -> dict[str, Any]:
    config: dict[str, Any] = synthesise(text).one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    return config


def test_the_endpoint_has_the_files_name_and_its_log_group_before_sagemaker_would_make_one(
    synthesise: Synthesise,
) -> None:
    found = synthesise(with_keys("endpoint", "log_retention_days = 7"))
    (endpoint,), (logs,) = found.ids("AWS::SageMaker::Endpoint"), found.ids("AWS::Logs::LogGroup")
    assert found.one("AWS::SageMaker::Endpoint")["EndpointName"] == "ranker"
    value = found.template["Outputs"]["EndpointName"]["Value"]
    assert value == {"Fn::GetAtt": [endpoint, "EndpointName"]}
    assert logs in found.template["Resources"][endpoint]["DependsOn"]
    group = {"LogGroupName": "/aws/sagemaker/Endpoints/ranker", "RetentionInDays": 7}
    assert found.one("AWS::Logs::LogGroup") == group


def test_an_update_keeps_the_count_that_scaling_reached(synthesise: Synthesise) -> None:
    endpoint = synthesise(VALID + SCALING).one("AWS::SageMaker::Endpoint")
    assert endpoint["RetainAllVariantProperties"] is True
    weight, count = (
        {"VariantPropertyType": kind} for kind in ("DesiredWeight", "DesiredInstanceCount")
    )
    assert endpoint["ExcludeRetainedVariantProperties"] == [weight]
    endpoint = synthesise().one("AWS::SageMaker::Endpoint")
    assert endpoint["ExcludeRetainedVariantProperties"] == [weight, count]


@pytest.mark.long
def test_an_update_goes_as_the_rollout_says_and_the_old_fleet_stays_until_an_alarm_can_fire(
    synthesise: Synthesise,
) -> None:
    assert "DeploymentConfig" not in synthesise().one("AWS::SageMaker::Endpoint")
    shifted = update(synthesise, CANARY)["BlueGreenUpdatePolicy"]
    assert shifted["TrafficRoutingConfiguration"] == {
        "Type": "CANARY",
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
        "WaitIntervalInSeconds": 600,
    }
    text = CANARY.replace('"canary"', '"rolling"\nbatch_percent = 25')
    assert update(synthesise, text)["RollingUpdatePolicy"] == {
        "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
        "WaitIntervalInSeconds": 600,
        "MaximumExecutionTimeoutInSeconds": 600 + 1800,
        "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
    }
    text = CANARY.replace('"canary"', '"rolling"\nrollback_batch_percent = 100')
    back = update(synthesise, text)["RollingUpdatePolicy"]["RollbackMaximumBatchSize"]
    assert back == {"Type": "CAPACITY_PERCENT", "Value": 100}

    for old, new, seconds in [
        ('"canary"', '"all_at_once"\nbake_minutes = 7', 7 * 60),
        ("p99_latency_ms = 100", "p99_latency_ms = 100\nwindow_minutes = 5", (5 + 1) * 60),
    ]:
        stays = update(synthesise, CANARY.replace(old, new))["BlueGreenUpdatePolicy"]
        assert stays["TerminationWaitInSeconds"] == seconds


def rollback_alarms(found: Synthesised) -> list[str]:
    return [name for name in found.ids("AWS::CloudWatch::Alarm") if "Rollback" in name]


ARTIFACT = 'artifact = { uri = "s3://models/run-1/model.tar.gz", sha256 = "%s" }' % ("0" * 64)


@pytest.mark.long
def test_another_configuration_has_rollback_alarms_of_its_own(synthesise: Synthesise) -> None:
    """The alarms of the old configuration must not watch the new; a threshold is no configuration."""
    pinned = CANARY.replace('saved_model = "model"', ARTIFACT)
    for text, changed in [
        (CANARY, CANARY.replace("c5.xlarge", "c5.2xlarge")),
        (CANARY, CANARY.replace('"2.20"', '"2.20"\ncompression = "none"')),
        (pinned, pinned.replace("/run-1/", "/run-2/")),
        (CANARY, CANARY + "[metrics]\ndetailed_observability = true\n"),
        (CANARY + "[capture]\n", CANARY + "[capture]\nsample_percent = 26\n"),
        (CANARY, CANARY + '[security]\niam_path = "/service/"\n'),
        (CANARY, with_keys("endpoint", ROLE, CANARY)),
    ]:
        before, after = (set(rollback_alarms(synthesise(one))) for one in (text, changed))
        assert before
        assert not before & after, changed
    before = rollback_alarms(synthesise(CANARY))
    assert rollback_alarms(synthesise(CANARY + '[tags]\nteam = "search"\n')) == before
    assert rollback_alarms(synthesise(CANARY.replace("= 100", "= 200"))) == before


def test_a_caller_may_invoke_this_endpoint_with_the_files_tags(environment: Environment) -> None:
    stack = stack_of(environment, VALID + '[tags]\nteam = "ranking"\n')
    endpoint = stack.node.find_child("Endpoint")
    assert isinstance(endpoint, Endpoint)
    caller = iam.Role(stack, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    endpoint.grant_invoke(caller)
    policies = Synthesised.of(stack).resources("AWS::IAM::Policy")
    (granted,) = [policy for name, policy in policies.items() if name.startswith("Caller")]
    (statement,) = granted["Properties"]["PolicyDocument"]["Statement"]
    assert statement == {
        "Action": "sagemaker:InvokeEndpoint",
        "Effect": "Allow",
        "Resource": "arn:aws:sagemaker:eu-west-1:111111111111:endpoint/ranker",
    }
    assert stack.tags.tag_values() == {"team": "ranking"}


@pytest.mark.long
def test_a_scaled_variant_s_minimum_replaces_no_fleet(synthesise: Synthesise) -> None:
    primary, most = "[variants.primary]\n", "max_instances = 4\n"
    two, three = (
        synthesise((CANARY + SCALING).replace(primary, f"{primary}min_instances = {n}\n{most}"))
        for n in (2, 3)
    )
    assert (two.ids(CONFIG), two.one(CONFIG)) == (three.ids(CONFIG), three.one(CONFIG))
    assert rollback_alarms(two) == rollback_alarms(three)
    assert three.one("AWS::ApplicationAutoScaling::ScalableTarget")["MinCapacity"] == 3
    initial = f"min_instances = 2\nmax_instances = 4\ninitial_instances = 2\n{SCALING}"
    for found, count in [(two, 1), (synthesise(VALID + initial), 2)]:
        assert found.one(CONFIG)["ProductionVariants"][0]["InitialInstanceCount"] == count


@pytest.mark.long
def test_the_logs_go_with_the_stack_or_outlive_it(synthesise: Synthesise) -> None:
    """Those of golden requests, too, and also where a rename replaces them."""
    for line, policy in [("", "Delete"), ('log_removal = "retain"', "RetainExceptOnCreate")]:
        golden = '{ body = "code/inference.py", content_type = "text/csv" }'
        text = f'{VALID}[rollout]\nstrategy = "canary"\ngolden_requests = {golden}\n'
        text += '[acknowledge]\nrollout-golden-request = "any file will do"\n'
        found = synthesise(with_keys("endpoint", line, text))
        groups = [
            (resource["DeletionPolicy"], resource["UpdateReplacePolicy"])
            for resource in found.resources("AWS::Logs::LogGroup").values()
        ]
        assert groups == [(policy, "Retain" if line else policy)] * 2


def test_the_endpoint_says_which_larger_request_is_acknowledged(synthesise: Synthesise) -> None:
    assert "Tags" not in synthesise().one("AWS::SageMaker::Endpoint")
    text = f"{VALID}[traffic]\nrequest_bytes = 25_000_000\n"
    text += '[acknowledge]\nrequest-too-large = "it was answered"\n'
    (tag,) = synthesise(text).one("AWS::SageMaker::Endpoint")["Tags"]
    assert tag == {"Key": "servable:request-bytes", "Value": "25000000"}


@pytest.mark.long
def test_a_protected_endpoint_outlives_destroy_and_a_rename(environment: Environment) -> None:
    for keys, stays, policies in [
        ("", False, (None, None)),
        ("protect = true", True, ("RetainExceptOnCreate", "Retain")),
    ]:
        stack = stack_of(environment, with_keys("endpoint", keys))
        assert bool(stack.termination_protection) is stays
        (endpoint,) = Synthesised.of(stack).resources("AWS::SageMaker::Endpoint").values()
        assert (endpoint.get("DeletionPolicy"), endpoint.get("UpdateReplacePolicy")) == policies


@pytest.mark.long
def test_a_warning_that_is_not_accepted_is_an_annotation(environment: Environment) -> None:
    """What `servable check` finds is said at synth too, on the stack that it is about."""
    at_once = VALID + '[rollout]\nstrategy = "all_at_once"\n'
    accepted = '[acknowledge]\nrollout-latency-unwatched = "5xx is all that we promise"\n'
    Annotations.from_stack(stack_of(environment, at_once)).has_warning(
        "/prod/endpoint", Match.string_like_regexp(".*alarms.p99_latency_ms: .*")
    )
    quiet = Annotations.from_stack(stack_of(environment, at_once + accepted))
    quiet.has_no_warning("*", Match.any_value())
    Annotations.from_stack(stack_of(environment)).has_no_info("*", Match.any_value())


TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
POLICY = "AWS::ApplicationAutoScaling::ScalingPolicy"
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
    scaled = f"{VALID}max_instances = 6\n{TABLE}steps = [{{ above_rps = 150, change = 4 }}]\n"
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
    target = synthesise(f"{text}{TABLE}provisioned_use_percent = 70\n").one(TARGET)
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
    empty = f"{VALID}min_instances = 0\nmax_instances = 4\n{TABLE}max_backlog_per_instance = 10\n"
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
    scaled = f"{VALID}min_instances = 2\nmax_instances = 12\n{TABLE}"
    found = synthesise(f"{scaled}steps = [{{ below_rps = 10, change = -1 }}]\n")
    metrics = alarm(found, "ranker-primary-steps-in")["Metrics"]
    assert "FILL(requests, 0)" in [metric.get("Expression") for metric in metrics]

    found = synthesise(f"{scaled}max_rps_per_instance = 10\nhold = true\n")
    assert (found.all(TARGET), found.all(POLICY)) == ([], [])
    # An update keeps the live number.
    excluded = found.one("AWS::SageMaker::Endpoint")["ExcludeRetainedVariantProperties"]
    assert excluded == [{"VariantPropertyType": "DesiredWeight"}]
