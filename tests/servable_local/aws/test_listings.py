"""SageMaker's list operations: filters, order, and pages, as botocore's paginators request them."""

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.sagemaker.described import list_page
from tests.servable_local.aws.boto_members import SCALING
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST, Account
from tests.servable_local.aws.test_scaling_acts import stepping

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
    component = {
        "EndpointName": "shared",
        "VariantName": "primary",
        "RuntimeConfig": {"CopyCount": 1},
    }
    needs = {"MinMemoryRequiredInMb": 128}
    job = {
        "TransformInput": {
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": archive}}
        },
        "TransformOutput": {"S3OutputPath": f"{bucket}/out"},
        "TransformResources": {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
    }
    role_arn = role["Role"]["Arn"]
    sagemaker.create_endpoint_config(
        EndpointConfigName="shared", ExecutionRoleArn=role_arn, ProductionVariants=[variant]
    )
    sagemaker.create_endpoint(EndpointName="shared", EndpointConfigName="shared")
    in_service = sagemaker.get_waiter("endpoint_in_service")
    in_service.wait(EndpointName="shared", WaiterConfig={"Delay": 0.05})
    model = {
        "ExecutionRoleArn": role_arn, "PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": archive},
    }  # fmt: skip
    for name in NAMES:
        sagemaker.create_model(ModelName=name, **model)
        sagemaker.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=[{**variant, "ModelName": name}]
        )
        sagemaker.create_endpoint(EndpointName=name, EndpointConfigName=name)
        specification = {"ModelName": name, "ComputeResourceRequirements": needs}
        sagemaker.create_inference_component(
            InferenceComponentName=name, Specification=specification, **component
        )
        sagemaker.create_transform_job(TransformJobName=name, ModelName=name, **job)
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
    order = {"NameContains": "ranker", "SortBy": "Name", "SortOrder": "Ascending"}
    small = sagemaker.get_paginator(operation).paginate(PaginationConfig={"PageSize": 5}, **order)
    assert [names(page, member, kind) for page in small] == [NAMES[:5], NAMES[5:10], NAMES[10:]]

    listed = getattr(sagemaker, operation)
    oldest = listed(NameContains="ranker-0", SortOrder="Ascending")[member][:3]
    first, second, third = (entry["CreationTime"] for entry in oldest)
    times = {"CreationTimeAfter": first + timedelta(microseconds=1), "CreationTimeBefore": third}
    assert names(listed(NameContains="ranker", **times), member, kind) == [NAMES[1]]
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
    token: dict[str, str] | None = {}
    while token is not None:
        page = list_page({"MaxResults": 5, **token}, "Model", kept, "Models")
        listed += names(page, "Models", "Model")
        kept = [each for each in kept if each not in page["Models"]]
        token = {"NextToken": page["NextToken"]} if "NextToken" in page else None
    assert listed == NAMES[::-1]


@pytest.fixture(scope="module")
def scaling(accounts: Account) -> Any:
    """Application Auto Scaling with three targets that are no endpoints, with an action each."""
    scaling = accounts.another().client(SCALING)
    ecs = {"ServiceNamespace": "ecs", "ScalableDimension": "ecs:service:DesiredCount"}
    action = {"Schedule": "cron(0 0 * * ? *)", "ScalableTargetAction": {"MinCapacity": 1}}
    one = {"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}
    for number in range(3):
        target = ecs | {"ResourceId": f"service/a/{number}"}
        scaling.register_scalable_target(**target, MinCapacity=1, MaxCapacity=2)
        scaling.put_scheduled_action(**target, ScheduledActionName="nightly", **action)
        scaling.put_scaling_policy(**target, **stepping("ChangeInCapacity", one))
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
