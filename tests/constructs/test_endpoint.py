"""The endpoint, its updates, who may call it, what outlives it, and what is said at synth."""

from typing import Any

import pytest
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Annotations, Match

from infra.constructs.endpoint.endpoint import Endpoint
from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesise, Synthesised, stack_of, with_keys

CONFIG = "AWS::SageMaker::EndpointConfig"
CANARY = VALID + '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
ROLE = 'execution_role = "arn:aws:iam::111111111111:role/company/serving"'
SCALING = "[variants.primary.scaling]\nmax_rps_per_instance = 10\n"


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
