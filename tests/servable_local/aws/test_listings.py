"""SageMaker's list operations: filters, order, and pages, as botocore's paginators request them."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.sagemaker.described import list_page
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST, Account

COUNT = 12
NAMES = [f"ranker-{number:02}" for number in range(COUNT)]
# Operation, its list, and the resource's name in the API.
LISTS = [
    ("list_endpoints", "Endpoints", "Endpoint"),
    ("list_endpoint_configs", "EndpointConfigs", "EndpointConfig"),
    ("list_models", "Models", "Model"),
    ("list_inference_components", "InferenceComponents", "InferenceComponent"),
    ("list_transform_jobs", "TransformJobSummaries", "TransformJob"),
]


@pytest.fixture(scope="module")
def sagemaker(accounts: Account, clock: ManualClock) -> Any:
    """SageMaker of an account that has twelve of everything, each a minute younger than the last."""
    account = accounts.another()
    sagemaker = account.client("sagemaker")
    role = account.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=TRUST)
    archive = account.put_archive(b"a")
    bucket = archive.rpartition("/")[0]
    variant = {"VariantName": "primary", "InstanceType": "ml.c5.9xlarge", "InitialInstanceCount": 1}
    role_arn = role["Role"]["Arn"]
    sagemaker.create_endpoint_config(
        EndpointConfigName="shared", ExecutionRoleArn=role_arn, ProductionVariants=[variant]
    )
    sagemaker.create_endpoint(EndpointName="shared", EndpointConfigName="shared")
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName="shared", WaiterConfig={"Delay": 0.05}
    )
    for name in NAMES:
        sagemaker.create_model(
            ModelName=name,
            ExecutionRoleArn=role_arn,
            PrimaryContainer={"Image": IMAGE, "ModelDataUrl": archive},
        )
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[{**variant, "ModelName": name}]
        )
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        sagemaker.create_inference_component(
            InferenceComponentName=name,
            EndpointName="shared",
            VariantName="primary",
            Specification={
                "ModelName": name,
                "ComputeResourceRequirements": {"MinMemoryRequiredInMb": 128},
            },
            RuntimeConfig={"CopyCount": 1},
        )
        sagemaker.create_transform_job(
            TransformJobName=name,
            ModelName=name,
            TransformInput={
                "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": archive}}
            },
            TransformOutput={"S3OutputPath": f"{bucket}/out"},
            TransformResources={"InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        )
        clock.advance(minutes=1)
    return sagemaker


def names(page: dict[str, Any], member: str, kind: str) -> list[str]:
    return [entry[f"{kind}Name"] for entry in page[member]]


@pytest.mark.parametrize(("operation", "member", "kind"), LISTS)
def test_a_list_has_pages(sagemaker: Any, operation: str, member: str, kind: str) -> None:
    pages = list(sagemaker.get_paginator(operation).paginate(NameContains="RANKER"))
    listed = [name for page in pages for name in names(page, member, kind)]
    assert [len(page[member]) for page in pages] == [10, 2]
    assert listed == NAMES[::-1]
    small = sagemaker.get_paginator(operation).paginate(
        NameContains="ranker",
        SortBy="Name",
        SortOrder="Ascending",
        PaginationConfig={"PageSize": 5},
    )
    assert [names(page, member, kind) for page in small] == [NAMES[:5], NAMES[5:10], NAMES[10:]]

    listed = getattr(sagemaker, operation)
    first, second, third = (
        entry["CreationTime"]
        for entry in listed(NameContains="ranker-0", SortOrder="Ascending")[member][:3]
    )
    between = listed(
        NameContains="ranker",
        CreationTimeAfter=first + timedelta(microseconds=1),
        CreationTimeBefore=third,
    )
    assert names(between, member, kind) == [NAMES[1]]
    assert names(listed(NameContains="er-11"), member, kind) == [NAMES[11]]
    assert first < second < third
    with pytest.raises(ClientError, match="alidation"):
        listed(NextToken="x")


def test_endpoints_are_filtered_and_sorted_by_status(sagemaker: Any) -> None:
    serving = sagemaker.list_endpoints(StatusEquals="InService", MaxResults=100, SortBy="Status")
    assert len(serving["Endpoints"]) == COUNT + 1
    assert not sagemaker.list_endpoints(StatusEquals="Failed")["Endpoints"]
    recent = serving["Endpoints"][0]["LastModifiedTime"] + timedelta(days=1)
    assert not sagemaker.list_endpoints(LastModifiedTimeAfter=recent)["Endpoints"]


def test_what_a_page_lists_may_be_deleted_before_the_next_page() -> None:
    kept = [{"ModelName": name, "CreationTime": name} for name in NAMES]
    listed: list[str] = []
    request: dict[str, Any] = {"MaxResults": 5}
    while True:
        page = list_page(request, "Model", kept, "Models")
        listed += names(page, "Models", "Model")
        kept = [each for each in kept if each not in page["Models"]]
        if "NextToken" not in page:
            break
        request["NextToken"] = page["NextToken"]
    assert listed == NAMES[::-1]


@pytest.fixture(scope="module")
def scaling(accounts: Account) -> Any:
    """Application Auto Scaling with three targets that are no endpoints, with an action each."""
    scaling = accounts.another().client("application-autoscaling")
    for number in range(3):
        target = {
            "ServiceNamespace": "ecs",
            "ResourceId": f"service/a/{number}",
            "ScalableDimension": "ecs:service:DesiredCount",
        }
        scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2)
        scaling.put_scheduled_action(
            **target,
            ScheduledActionName="nightly",
            Schedule="cron(0 0 * * ? *)",
            ScalableTargetAction={"MinCapacity": 1},
        )
        scaling.put_scaling_policy(
            **target,
            PolicyName="steps",
            PolicyType="StepScaling",
            StepScalingPolicyConfiguration={
                "AdjustmentType": "ChangeInCapacity",
                "StepAdjustments": [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}],
            },
        )
    return scaling


def test_scaling_has_pages(scaling: Any) -> None:
    for operation, member, count in [
        ("describe_scalable_targets", "ScalableTargets", 3),
        ("describe_scaling_policies", "ScalingPolicies", 3),
        ("describe_scheduled_actions", "ScheduledActions", 3),
        ("describe_scaling_activities", "ScalingActivities", 0),
    ]:
        pages = scaling.get_paginator(operation).paginate(
            ServiceNamespace="ecs", PaginationConfig={"PageSize": 2}
        )
        listed = [entry["ResourceId"] for page in pages for entry in page[member]]
        assert listed == [f"service/a/{number}" for number in range(count)]
        with pytest.raises(ClientError, match="InvalidNextTokenException"):
            getattr(scaling, operation)(ServiceNamespace="ecs", NextToken="x")
