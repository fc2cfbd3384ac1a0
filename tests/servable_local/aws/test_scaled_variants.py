"""Application Auto Scaling of an endpoint that serves, SageMaker's definitions, and what both refuse."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.model_api import check_frequency, check_pools
from tests.servable_local.aws.deployed_templates import TARGET, serving
from tests.servable_local.aws.local_account import TRUST, Account

KEY = {
    "ServiceNamespace": "sagemaker",
    "ResourceId": TARGET,
    "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
}
KINDS = (
    "AWS::ApplicationAutoScaling::ScalableTarget",
    "AWS::ApplicationAutoScaling::ScalingPolicy",
)


def refused(call: Callable[..., Any], **given: Any) -> str:
    with pytest.raises(ClientError) as raised:
        call(**given)
    return str(raised.value.response["Error"]["Message"])


@pytest.fixture(scope="module")
def served(accounts: Account) -> Account:
    """An account with the endpoint `ranker` of two instances, in no stack of the tests."""
    account = accounts.another()
    account.deploy(serving(account.put_archive(b"a")), "served")
    return account


def actions(*names: str) -> list[dict[str, Any]]:
    capacity = {"MinCapacity": 2, "MaxCapacity": 3}
    schedule = "cron(0 9 * * ? *)"
    return [
        {"ScheduledActionName": name, "Schedule": schedule, "ScalableTargetAction": capacity}
        for name in names
    ]


def scaled(most: int, *names: str, policy: bool = True) -> dict[str, Any]:
    target = {**KEY, "MinCapacity": 1, "MaxCapacity": most, "ScheduledActions": actions(*names)}
    tracking = {
        "TargetValue": 100,
        "PredefinedMetricSpecification": {
            "PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"
        },
    }
    by_target = {
        "PolicyName": "invocations",
        "PolicyType": "TargetTrackingScaling",
        "ScalingTargetId": {"Ref": "Target"},
        "TargetTrackingScalingPolicyConfiguration": tracking,
    }
    resources = {"Target": {"Type": KINDS[0], "Properties": target}}
    if policy:
        resources["Policy"] = {"Type": KINDS[1], "Properties": by_target}
    return {"Resources": resources, "Outputs": {"Target": {"Value": {"Ref": "Target"}}}}


def scheduled(account: Account) -> list[str]:
    found = account.client("application-autoscaling").describe_scheduled_actions(
        ServiceNamespace="sagemaker"
    )["ScheduledActions"]
    return sorted(one["ScheduledActionName"] for one in found)


def targets(account: Account) -> list[int]:
    found = account.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker"
    )["ScalableTargets"]
    return [one["MaxCapacity"] for one in found]


def policies(account: Account) -> int:
    found = account.client("application-autoscaling").describe_scaling_policies(
        ServiceNamespace="sagemaker"
    )["ScalingPolicies"]
    return len(found)


def test_a_scaled_variant_of_a_stack_is_made_changed_and_deleted(served: Account) -> None:
    assert served.deploy(scaled(4, "day", "night")) == "CREATE_COMPLETE"
    first = scheduled(served), targets(served), policies(served), served.output("Target")
    assert served.deploy(scaled(5, "night")) == "UPDATE_COMPLETE"
    second = scheduled(served), targets(served), policies(served)
    assert served.deploy(scaled(5, "night", policy=False)) == "UPDATE_COMPLETE"
    third = policies(served)
    served.delete()
    reference = f"{TARGET}|{KEY['ScalableDimension']}|sagemaker"
    assert first == (["day", "night"], [4], 1, reference)
    assert (second, third) == ((["night"], [5], 1), 0)
    assert (scheduled(served), targets(served)) == ([], [])


def test_what_was_deregistered_by_hand_is_no_obstacle(served: Account) -> None:
    scaling = served.client("application-autoscaling")
    served.deploy(scaled(4))
    scaling.deregister_scalable_target(**KEY)
    assert served.delete() == "DELETE_COMPLETE"
    served.deploy(scaled(4))
    scaling.delete_scaling_policy(PolicyName="invocations", **KEY)
    assert served.delete() == "DELETE_COMPLETE"


def test_only_known_variants_are_scaled(served: Account) -> None:
    register = served.client("application-autoscaling").register_scalable_target
    form = "expected endpoint/NAME/variant/VARIANT."
    for resource, problem in [
        ("endpoint/ranker", form),
        ("endpoint/ranker/primary/variant", form),
        ("model/ranker/variant/primary", form),
        ("endpoint/ranker/variant/primary/x", form),
        ("endpoint/absent/variant/primary", ':endpoint/absent".'),
        ("endpoint/ranker/variant/absent", "has no variant absent; it has primary."),
    ]:
        message = refused(register, **KEY | {"ResourceId": resource}, MinCapacity=1, MaxCapacity=2)
        assert (message.endswith(problem), targets(served)) == (True, [])


def test_what_is_not_there_is_not_scaled_and_has_no_tags(served: Account) -> None:
    scaling = served.client("application-autoscaling")
    key = KEY | {
        "ResourceId": "inference-component/x",
        "ScalableDimension": "sagemaker:inference-component:DesiredCopyCount",
    }
    message = refused(scaling.register_scalable_target, **key, MinCapacity=1, MaxCapacity=7)
    assert "Could not find inference component" in message
    message = refused(scaling.delete_scaling_policy, PolicyName="absent", **KEY)
    assert message == "No scaling policy found for policy name: absent"
    arn = "arn:aws:application-autoscaling:us-east-1:111111111111:scalable-target/0"
    assert scaling.list_tags_for_resource(ResourceARN=arn)["Tags"] == {}


def test_a_target_brings_the_count_into_its_range(served: Account) -> None:
    served.scale(least=3, most=4)
    (target,) = served.client("application-autoscaling").describe_scalable_targets(
        ServiceNamespace="sagemaker"
    )["ScalableTargets"]
    (variant,) = served.client("sagemaker").describe_endpoint(EndpointName="ranker")[
        "ProductionVariants"
    ]
    served.client("application-autoscaling").deregister_scalable_target(**KEY)
    assert target["RoleARN"].endswith(
        "role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/"
        "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    )
    assert (variant["DesiredInstanceCount"], targets(served)) == (3, [])


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
    for arn in (role, other["Role"]["Arn"]):
        message = refused(
            create, ModelName="m", ExecutionRoleArn=arn, PrimaryContainer={"Image": "i"}
        )
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
    refused: list[tuple[dict[str, Any], str]] = [
        ({"InstanceType": "a", "InstancePools": [pool("b", 1)]}, "InstancePools, not both"),
        ({"InstancePools": [pool("a", 1), pool("b", 1)]}, "Priority must differ"),
        ({"InstancePools": [pool("a", 1), pool("a", 2)]}, "InstanceType must differ"),
    ]
    for variant, problem in refused:
        with pytest.raises(SageMakerError, match=problem):
            check_pools(variant)
    check_pools({"InstanceType": "a"})
    check_pools({"InstancePools": [pool("a", 1), pool("b", 2)]})
