"""The endpoint, its updates, and who may call it."""

from collections.abc import Callable

import aws_cdk as cdk
import pytest
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Template

from infra.constructs.endpoint.endpoint import Endpoint
from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesised, stack_of

Synthesise = Callable[..., Synthesised]
CANARY = VALID + '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
SCALING = "[variants.primary.scaling]\nmax_rps_per_instance = 10\n"


def dependencies(found: Synthesised, kind: str) -> list[str]:
    resource = found.template["Resources"][found.ids(kind)[0]]
    return list(resource.get("DependsOn", []))


def test_the_endpoint_has_the_name_of_the_file_and_puts_it_out(synthesise: Synthesise) -> None:
    assert synthesise().one("AWS::SageMaker::Endpoint")["EndpointName"] == "ranker"

    found = synthesise()
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    value = found.template["Outputs"]["EndpointName"]["Value"]
    assert value == {"Fn::GetAtt": [endpoint, "EndpointName"]}


def test_the_log_group_has_the_files_retention_before_sagemaker_would_make_one(
    synthesise: Synthesise,
) -> None:
    found = synthesise()
    assert found.ids("AWS::Logs::LogGroup")[0] in dependencies(found, "AWS::SageMaker::Endpoint")
    text = VALID.replace('name = "ranker"', 'name = "ranker"\nlog_retention_days = 7')
    assert synthesise(text).one("AWS::Logs::LogGroup") == {
        "LogGroupName": "/aws/sagemaker/Endpoints/ranker",
        "RetentionInDays": 7,
    }


def test_an_update_keeps_the_count_that_scaling_reached(synthesise: Synthesise) -> None:
    endpoint = synthesise(VALID + SCALING).one("AWS::SageMaker::Endpoint")
    assert endpoint["RetainAllVariantProperties"] is True
    assert endpoint["ExcludeRetainedVariantProperties"] == [
        {"VariantPropertyType": "DesiredWeight"}
    ]
    endpoint = synthesise().one("AWS::SageMaker::Endpoint")
    assert endpoint["ExcludeRetainedVariantProperties"] == [
        {"VariantPropertyType": "DesiredWeight"},
        {"VariantPropertyType": "DesiredInstanceCount"},
    ]


def test_a_canary_shifts_its_share_and_bakes_and_without_a_rollout_there_is_none(
    synthesise: Synthesise,
) -> None:
    assert "DeploymentConfig" not in synthesise().one("AWS::SageMaker::Endpoint")
    config = synthesise(CANARY).one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    assert config["BlueGreenUpdatePolicy"]["TrafficRoutingConfiguration"] == {
        "Type": "CANARY",
        "CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10},
        "WaitIntervalInSeconds": 600,
    }


def test_a_rolling_update_replaces_batch_by_batch_and_so_goes_back(synthesise: Synthesise) -> None:
    text = CANARY.replace('"canary"', '"rolling"\nbatch_percent = 25')
    config = synthesise(text).one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    assert config["RollingUpdatePolicy"] == {
        "MaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
        "WaitIntervalInSeconds": 600,
        "MaximumExecutionTimeoutInSeconds": 600 + 1800,
        "RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 25},
    }

    text = CANARY.replace('"canary"', '"rolling"\nrollback_batch_percent = 100')
    config = synthesise(text).one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    back = config["RollingUpdatePolicy"]["RollbackMaximumBatchSize"]
    assert back == {"Type": "CAPACITY_PERCENT", "Value": 100}


def test_the_old_fleet_stays_until_an_alarm_can_have_fired(synthesise: Synthesise) -> None:
    text = CANARY.replace('"canary"', '"all_at_once"\nbake_minutes = 7')
    config = synthesise(text).one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    assert config["BlueGreenUpdatePolicy"]["TerminationWaitInSeconds"] == 7 * 60

    text = CANARY.replace("p99_latency_ms = 100", "p99_latency_ms = 100\nwindow_minutes = 5")
    config = synthesise(text).one("AWS::SageMaker::Endpoint")["DeploymentConfig"]
    assert config["BlueGreenUpdatePolicy"]["TerminationWaitInSeconds"] == (5 + 1) * 60


def rollback_alarms(found: Synthesised) -> list[str]:
    return [name for name in found.ids("AWS::CloudWatch::Alarm") if "Rollback" in name]


def test_a_rollback_judges_the_new_fleet_alone_and_another_configuration_anew(
    synthesise: Synthesise,
) -> None:
    (latency,) = [
        alarm
        for alarm in synthesise(CANARY).all("AWS::CloudWatch::Alarm")
        if "-rollback-primary-latency-" in alarm["AlarmName"]
    ]
    names = {dimension["Name"] for dimension in latency["Dimensions"]}
    assert names == {"EndpointConfigName", "EndpointName", "VariantName"}

    before = rollback_alarms(synthesise(CANARY))
    after = rollback_alarms(synthesise(CANARY.replace("c5.xlarge", "c5.2xlarge")))
    assert set(before) & set(after) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            'tensorflow = "2.20"', 'tensorflow = "2.20"\ncompression = "none"', id="compression"
        ),
        pytest.param("/run-1/", "/run-2/", id="artifact uri"),
    ],
)
def test_another_place_of_the_same_model_gets_other_rollback_alarms(
    synthesise: Synthesise, before: str, after: str
) -> None:
    text = CANARY
    if "run" in before:
        pinned = 'artifact = { uri = "s3://models/run-1/model.tar.gz", sha256 = "%s" }' % ("0" * 64)
        text = CANARY.replace('saved_model = "model"', pinned)
    assert before in text
    alarms = [rollback_alarms(synthesise(one)) for one in (text, text.replace(before, after))]
    assert set(alarms[0]) & set(alarms[1]) == set()


def test_other_tags_and_another_threshold_keep_the_rollback_alarms(synthesise: Synthesise) -> None:
    before = rollback_alarms(synthesise(CANARY))
    assert rollback_alarms(synthesise(CANARY + '[tags]\nteam = "search"\n')) == before
    assert rollback_alarms(synthesise(CANARY.replace("= 100", "= 200"))) == before


def test_a_caller_may_invoke_this_endpoint_and_no_other(environment: Environment) -> None:
    stack = stack_of(environment)
    endpoint = stack.node.find_child("Endpoint")
    assert isinstance(endpoint, Endpoint)
    caller = iam.Role(stack, "Caller", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    endpoint.grant_invoke(caller)
    policies = Template.from_stack(stack).find_resources("AWS::IAM::Policy")
    (granted,) = [policy for name, policy in policies.items() if name.startswith("Caller")]
    assert granted["Properties"]["PolicyDocument"]["Statement"] == [
        {
            "Action": "sagemaker:InvokeEndpoint",
            "Effect": "Allow",
            "Resource": "arn:aws:sagemaker:eu-west-1:111111111111:endpoint/ranker",
        }
    ]


def test_tags_of_the_file_reach_the_endpoint(environment: Environment) -> None:
    stack = stack_of(environment, VALID + '[tags]\nteam = "ranking"\n')
    (artefact,) = cdk.App.of(stack).synth().get_nested_assembly("assembly-prod").stacks  # type: ignore[union-attr]
    assert artefact.tags == {"team": "ranking"}


def fleet(found: Synthesised) -> dict[str, object]:
    """What is replaced as one."""
    config = found.one("AWS::SageMaker::EndpointConfig")
    return {"config": config, "ids": found.ids("AWS::SageMaker::EndpointConfig")}


def test_a_scaled_variant_starts_apart_from_its_minimum_which_replaces_no_fleet(
    synthesise: Synthesise,
) -> None:
    primary = "[variants.primary]\n"
    two, three = (
        synthesise(
            (CANARY + SCALING).replace(
                primary, f"{primary}min_instances = {n}\nmax_instances = 4\n"
            )
        )
        for n in (2, 3)
    )
    assert fleet(two) == fleet(three)
    assert rollback_alarms(two) == rollback_alarms(three)
    assert three.one("AWS::ApplicationAutoScaling::ScalableTarget")["MinCapacity"] == 3
    for lines, count in [
        ("min_instances = 3\n", 3),
        (f"min_instances = 2\nmax_instances = 4\n{SCALING}", 1),
        (f"min_instances = 2\nmax_instances = 4\ninitial_instances = 2\n{SCALING}", 2),
    ]:
        config = synthesise(VALID + lines).one("AWS::SageMaker::EndpointConfig")
        assert config["ProductionVariants"][0]["InitialInstanceCount"] == count


def test_the_logs_go_with_the_stack_or_outlive_it(synthesise: Synthesise) -> None:
    """Those of golden requests, too, and also where a rename replaces them."""
    for line, policy in [("", "Delete"), ('\nlog_removal = "retain"', "RetainExceptOnCreate")]:
        golden = '{ body = "code/inference.py", content_type = "text/csv" }'
        text = f'{VALID}[rollout]\nstrategy = "canary"\ngolden_requests = {golden}\n'
        text += '[acknowledge]\nrollout-golden-request = "any file will do"\n'
        found = synthesise(text.replace('name = "ranker"', f'name = "ranker"{line}'))
        groups = [
            (resource["DeletionPolicy"], resource["UpdateReplacePolicy"])
            for resource in found.template["Resources"].values()
            if resource["Type"] == "AWS::Logs::LogGroup"
        ]
        assert groups == [(policy, "Retain" if line else policy)] * 2


def test_the_endpoint_says_which_larger_request_is_acknowledged(synthesise: Synthesise) -> None:
    for size, tagged in [(6_291_456, None), (6_291_457, "6291457"), (25_000_000, "25000000")]:
        text = f"{VALID}[traffic]\nrequest_bytes = {size}\n"
        if tagged:
            text += '[acknowledge]\nrequest-too-large = "it was answered"\n'
        tags = synthesise(text).one("AWS::SageMaker::Endpoint").get("Tags", [])
        said = {tag["Key"]: tag["Value"] for tag in tags}
        assert said.get("servable:request-bytes") == tagged
