"""Application Auto Scaling of an endpoint that serves, SageMaker's definitions, and what both refuse."""

from typing import Any

import pytest

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.model_api import check_frequency, check_pools
from tests.servable_local.aws.boto_members import SCALING, scalable, tracking
from tests.servable_local.aws.deployed_templates import resource, serving
from tests.servable_local.aws.local_account import TRUST, Account, refused

KEY = scalable()
OF_SAGEMAKER = {"ServiceNamespace": "sagemaker"}


@pytest.fixture(scope="module")
def served(accounts: Account) -> Account:
    """An account with the endpoint `ranker` of two instances, in no stack of the tests."""
    account = accounts.another()
    account.deploy(serving(account.put_archive(b"a")), "served")
    return account


def scaled(most: int, *names: str, policy: bool = True) -> dict[str, Any]:
    capacity = {"MinCapacity": 2, "MaxCapacity": 3}
    daily = {"Schedule": "cron(0 9 * * ? *)", "ScalableTargetAction": capacity}
    target = {**KEY, "MinCapacity": 1, "MaxCapacity": most}
    target["ScheduledActions"] = [{"ScheduledActionName": name, **daily} for name in names]
    by_target = {
        "PolicyName": "invocations",
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": {"Ref": "Target"},
        "TargetTrackingScalingPolicyConfiguration": tracking(100),
    }
    resources = {"Target": resource("ApplicationAutoScaling::ScalableTarget", **target)}
    if policy:
        resources["Policy"] = resource("ApplicationAutoScaling::ScalingPolicy", **by_target)
    return {"Resources": resources, "Outputs": {"Target": {"Value": {"Ref": "Target"}}}}


def described(account: Account) -> tuple[list[str], list[int], int]:
    """Scheduled actions, maximums of targets, and how many policies."""
    scaling = account.client(SCALING)
    actions = scaling.describe_scheduled_actions(**OF_SAGEMAKER)["ScheduledActions"]
    targets = scaling.describe_scalable_targets(**OF_SAGEMAKER)["ScalableTargets"]
    policies = scaling.describe_scaling_policies(**OF_SAGEMAKER)["ScalingPolicies"]
    names = sorted(one["ScheduledActionName"] for one in actions)
    return names, [one["MaxCapacity"] for one in targets], len(policies)


def test_a_scaled_variant_of_a_stack_is_made_changed_and_deleted(served: Account) -> None:
    assert served.deploy(scaled(4, "day", "night")) == "CREATE_COMPLETE"
    assert served.output("Target") == f"{KEY['ResourceId']}|{KEY['ScalableDimension']}|sagemaker"
    assert described(served) == (["day", "night"], [4], 1)
    assert served.deploy(scaled(5, "night")) == "UPDATE_COMPLETE"
    assert described(served) == (["night"], [5], 1)
    assert served.deploy(scaled(5, "night", policy=False)) == "UPDATE_COMPLETE"
    assert described(served) == (["night"], [5], 0)
    served.delete()
    assert described(served) == ([], [], 0)


def test_what_was_deregistered_by_hand_is_no_obstacle(served: Account) -> None:
    scaling = served.client(SCALING)
    served.deploy(scaled(4))
    scaling.deregister_scalable_target(**KEY)
    assert served.delete() == "DELETE_COMPLETE"
    served.deploy(scaled(4))
    scaling.delete_scaling_policy(PolicyName="invocations", **KEY)
    assert served.delete() == "DELETE_COMPLETE"


def test_only_known_variants_are_scaled(served: Account) -> None:
    register = served.client(SCALING).register_scalable_target
    form = "expected endpoint/NAME/variant/VARIANT."
    for wrong, problem in [
        ("endpoint/ranker", form),
        ("endpoint/ranker/primary/variant", form),
        ("model/ranker/variant/primary", form),
        ("endpoint/ranker/variant/primary/x", form),
        ("endpoint/absent/variant/primary", ':endpoint/absent".'),
        ("endpoint/ranker/variant/absent", "has no variant absent; it has primary."),
    ]:
        message = refused(register, **KEY | {"ResourceId": wrong}, MinCapacity=1, MaxCapacity=2)
        assert (message.endswith(problem), described(served)[1]) == (True, [])


def test_what_is_not_there_is_not_scaled_and_has_no_tags(served: Account) -> None:
    scaling, copies = served.client(SCALING), "sagemaker:inference-component:DesiredCopyCount"
    key = KEY | {"ResourceId": "inference-component/x", "ScalableDimension": copies}
    message = refused(scaling.register_scalable_target, **key, MinCapacity=1, MaxCapacity=7)
    assert "Could not find inference component" in message
    message = refused(scaling.delete_scaling_policy, PolicyName="absent", **KEY)
    assert message == "No scaling policy found for policy name: absent"
    arn = "arn:aws:application-autoscaling:us-east-1:111111111111:scalable-target/0"
    assert scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] == {}


def test_a_target_brings_the_count_into_its_range(served: Account) -> None:
    served.scale(least=3, most=4)
    scaling = served.client(SCALING)
    (target,) = scaling.describe_scalable_targets(**OF_SAGEMAKER)["ScalableTargets"]
    endpoint = served.client("sagemaker").describe_endpoint(EndpointName="ranker")
    (variant,) = endpoint["ProductionVariants"]
    scaling.deregister_scalable_target(**KEY)
    role = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    path = "role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com"
    assert target["RoleARN"].endswith(f"{path}/{role}")
    assert (variant["DesiredInstanceCount"], described(served)[1]) == (3, [])


# --- models and configurations
def test_models_and_configurations_are_listed_and_need_a_role(served: Account) -> None:
    sagemaker = served.client("sagemaker")
    (model,) = sagemaker.list_models()["Models"]
    (config,) = sagemaker.list_endpoint_configs()["EndpointConfigs"]
    assert model["ModelName"].startswith("served-Model-")
    assert config["EndpointConfigName"].startswith("served-Config-")

    create, role = sagemaker.create_model, f"arn:aws:iam::{served.number}:role/absent"
    message = refused(create, ModelName="m", ExecutionRoleArn=role)
    assert message == "You must provide either PrimaryContainer or Containers."
    trust = TRUST.replace("sagemaker.", "lambda.")
    other = served.client("iam").create_role(RoleName="other", AssumeRolePolicyDocument=trust)
    model = {"ModelName": "m", "PrimaryContainer": {"Image": "i"}}
    for arn in (role, other["Role"]["Arn"]):
        message = refused(create, ExecutionRoleArn=arn, **model)
        assert message.startswith(f"Could not assume role {arn}.")


def test_a_frequency_is_one_that_sagemaker_lists() -> None:
    for seconds in [10, 30, 60, 120, 180, 240, 300]:
        check_frequency({"MetricsConfig": {"MetricPublishFrequencyInSeconds": seconds}})
    for seconds in [9, 11, 20, 59, 61, 301]:
        with pytest.raises(SageMakerError, match="valid values: 10, 30, 60, 120, 180, 240, 300"):
            check_frequency({"MetricsConfig": {"MetricPublishFrequencyInSeconds": seconds}})


def pool(kind: str, priority: int) -> dict[str, Any]:
    return {"InstanceType": kind, "Priority": priority}


def test_pools_differ_in_type_and_priority() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"InstanceType": "a", "InstancePools": [pool("b", 1)]}, "InstancePools, not both"),
        ({"InstancePools": [pool("a", 1), pool("b", 1)]}, "Priority must differ"),
        ({"InstancePools": [pool("a", 1), pool("a", 2)]}, "InstanceType must differ"),
    ]
    for variant, problem in wrong:
        with pytest.raises(SageMakerError, match=problem):
            check_pools(variant)
    check_pools({"InstanceType": "a"})
    check_pools({"InstancePools": [pool("a", 1), pool("b", 2)]})
