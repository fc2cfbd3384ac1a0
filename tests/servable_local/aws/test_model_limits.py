"""Operations of hosting, invocation, and scaling: lists have pages, and limits of botocore's model hold."""

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import load_service_model
from servable_local.aws.moto_patches.every_service import has_no_effect
from servable_local.aws.resources.resource_type import list_violations
from servable_local.aws.sagemaker.described import list_page
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.endpoint_update import check_deployment
from servable_local.aws.sagemaker.model_api import reject_mixed_kinds
from servable_local.aws.sagemaker.runtime_api import list_violated_limits
from servable_local.aws.scaling.api import ScalingApi
from tests.servable_local.aws.boto_members import SCALING, scalable
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.local_account import TRUST, Account, refused
from tests.servable_local.aws.test_aws_answers import client
from tests.servable_local.aws.test_scaling_acts import stepping

APIS = {"sagemaker": SageMakerApi, "application-autoscaling": ScalingApi}


def implemented() -> Iterator[tuple[str, str]]:
    """(service, operation), of those that the local AWS answers."""
    for service, api in APIS.items():
        for operation in load_service_model(service).operation_names:
            if hasattr(api, xform_name(operation)) and not has_no_effect(service, operation, api):
                yield service, operation


def too_much(shape: Any) -> Any:
    """A value that the shape's own limits exclude; None if it states none."""
    limits = shape.metadata
    if shape.type_name == "string":
        if shape.enum:
            return "NoSuchValue"
        if limits.get("pattern", "").lstrip("^").startswith("[a-zA-Z0-9]"):
            return "not a name!"
        return "x" * (limits["max"] + 1) if "max" in limits else None
    if shape.type_name in ("integer", "long", "float", "double") and "max" in limits:
        return limits["max"] + 1
    return None


@pytest.fixture(scope="module")
def clients(accounts: Account) -> dict[str, Any]:
    """Clients that send what botocore would reject before it sends."""
    return {service: client(accounts, service) for service in APIS}


def test_most_operations_of_hosting_and_scaling_are_looked_at() -> None:
    operations = dict.fromkeys(operation for _, operation in implemented())
    some = {"ListEndpoints", "UpdateEndpoint", "PutScalingPolicy", "StopTransformJob"}
    assert some <= {*operations}
    assert len(operations) > 50


@pytest.mark.parametrize(("service", "operation"), [*implemented()])
def test_limits_of_an_operation(clients: dict[str, Any], service: str, operation: str) -> None:
    call = getattr(clients[service], xform_name(operation))
    shape = load_service_model(service).operation_model(operation).input_shape
    excluded: list[dict[str, Any]] = [{}] if shape.required_members else []
    for name, member in shape.members.items():
        if (value := too_much(member)) is not None:
            excluded.append({name: value})
    for given in excluded:
        with pytest.raises(ClientError) as raised:
            call(**given)
        error = raised.value.response["Error"]
        assert error["Code"] == "ValidationException", (given, error)


def test_a_queued_request_has_the_limits_of_its_model() -> None:
    for name, value, problems in [
        ("RequestTTLSeconds", "59", 1),
        ("RequestTTLSeconds", "60", 0),
        ("RequestTTLSeconds", "21601", 1),
        ("RequestTTLSeconds", "soon", 1),
        ("InvocationTimeoutSeconds", "3601", 1),
        ("InputLocation", "s3://", 1),
        ("InputLocation", "s3://bucket/key", 0),
    ]:
        headers = {f"X-Amzn-SageMaker-{name}": value}
        found = list_violated_limits(headers, b"", name="ranker", operation="InvokeEndpointAsync")
        assert len(found) == problems
    for operation in ["InvokeEndpoint", "InvokeEndpointAsync"]:
        (problem,) = list_violated_limits({}, b"", name="with_underscore", operation=operation)
        assert problem.startswith("Value at 'endpointName' failed to satisfy constraint")


def test_a_pattern_of_java_is_checked() -> None:
    """Java's \\p{L}, \\p{Z}, and \\p{N}; its surrogate pairs; and \\p{Print}."""
    tagged = {"ResourceArn": "arn:aws:sagemaker:us-east-1:123456789012:model/a"}
    for key, value, problems in [("größe", "5 µ²", 0), ("a", "50 %", 1), ("a", "tab\t", 1)]:
        given = tagged | {"Tags": [{"Key": key, "Value": value}]}
        assert len(list_violations(given, "sagemaker", "AddTags")) == problems, value

    policy = scalable() | {"PolicyName": "a", "ResourceId": "a"}
    for operation, name, value, problems in [
        ("DeleteScalingPolicy", "ResourceId", "a\U0001f600", 0),
        ("DeleteScalingPolicy", "ResourceId", "a\x01", 1),
        ("PutScalingPolicy", "PolicyName", "größe", 1),
        ("PutScalingPolicy", "PolicyName", "size", 0),
    ]:
        given = policy | {name: value}
        assert len(list_violations(given, "application-autoscaling", operation)) == problems, value


def _refuse_model(account: Account, name: str, variables: dict[str, str]) -> str:
    (role,) = account.client("iam").list_roles()["Roles"]
    data = {"ModelDataUrl": f"s3://archives-{account.number}/model.tar.gz"}
    container = {"Image": IMAGE, "Environment": variables, **data}
    create, role = account.client("sagemaker").create_model, role["Arn"]
    return refused(create, ModelName=name, ExecutionRoleArn=role, PrimaryContainer=container)


def _refuse_config(account: Account, *names: str, **more: Any) -> str:
    sagemaker = account.client("sagemaker")
    (model,) = sagemaker.list_models()["Models"]
    one = {"ModelName": model["ModelName"], **ONE, **more}
    variants = [one | {"VariantName": name} for name in names]
    create, name = sagemaker.create_endpoint_config, f"of-{len(names)}"
    return refused(create, EndpointConfigName=name, ProductionVariants=variants)


ONE = {"VariantName": "a", "InstanceType": "ml.c5.xlarge", "InitialInstanceCount": 1}


def test_a_models_a_configurations_and_scalings_limits_are_said(ranker: Account) -> None:
    said = _refuse_model(ranker, "many", {f"A{n}": "x" for n in range(101)})
    found, where = "1 validation error detected", "Value at 'primaryContainer.environment'"
    must = "Member must have length less than or equal to 100"
    assert said == f"{found}: {where} failed to satisfy constraint: {must}"
    said = _refuse_model(ranker, "long", {"A": "x" * 1025})
    assert "'primaryContainer.environment.A.member' failed" in said
    said = _refuse_model(ranker, "with_underscore", {"A": "x" * 1025})
    assert said.startswith("2 validation errors detected: ")
    assert "Value at 'modelName' failed to satisfy constraint" in said
    assert "secret" not in _refuse_model(ranker, "long", {"A": "secret" * 200})

    said = _refuse_config(ranker, *(f"v{n}" for n in range(11)))
    assert "'productionVariants' failed to satisfy constraint" in said
    assert "must differ" in _refuse_config(ranker, "one", "one")
    said = _refuse_config(ranker, "one", VolumeSizeInGB=513)
    assert "'productionVariants.1.member.volumeSizeInGB' failed" in said
    said = refused(ranker.scale, least=3, most=2)
    assert said == "Maximum capacity cannot be less than minimum capacity"


SERVERLESS = {"VariantName": "a", "ServerlessConfig": {"MemorySizeInMB": 1024, "MaxConcurrency": 1}}
QUEUE = {"OutputConfig": {"S3OutputPath": "s3://answers/"}}
SHADOW = {"ShadowProductionVariants": [ONE]}


@pytest.mark.parametrize(
    ("variants", "more", "said"),
    [
        ([SERVERLESS, ONE], {}, "exactly one production variant"),
        ([SERVERLESS], {"DataCaptureConfig": {}}, "DataCaptureConfig"),
        ([SERVERLESS], {"AsyncInferenceConfig": QUEUE}, "AsyncInference"),
        ([SERVERLESS | ONE], {}, "not both"),
        ([ONE, ONE], SHADOW, "exactly one"),
        ([ONE], SHADOW | {"AsyncInferenceConfig": QUEUE}, "shadow variants"),
        ([SERVERLESS], {}, None),
        ([ONE, ONE], {}, None),
        ([ONE], SHADOW, None),
        ([ONE], {"AsyncInferenceConfig": QUEUE}, None),
    ],
)
def test_what_does_not_go_together_is_refused(
    variants: list[dict[str, Any]], more: dict[str, Any], said: str | None
) -> None:
    with pytest.raises(SageMakerError, match=said) if said else nullcontext():
        reject_mixed_kinds({"ProductionVariants": variants} | more)


def test_a_wrong_serverless_size_is_rejected() -> None:
    for gigabytes, most, provisioned, said in [
        (1500, 1, None, "1500 isn't a multiple of 1024"),
        (1024, 5, 6, "ProvisionedConcurrency 6 must be at most MaxConcurrency, 5"),
        (6144, 5, 5, None),
    ]:
        size = {"MemorySizeInMB": gigabytes, "MaxConcurrency": most}
        size |= {"ProvisionedConcurrency": provisioned} if provisioned else {}
        with pytest.raises(SageMakerError, match=said) if said else nullcontext():
            reject_mixed_kinds({"ProductionVariants": [SERVERLESS | {"ServerlessConfig": size}]})


def _blue_green(kind: str, name: str = "", size: str = "", value: int = 0) -> dict[str, Any]:
    routing = {"Type": kind, "WaitIntervalInSeconds": 0}
    routing |= {name: {"Type": size, "Value": value}} if name else {}
    return {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": routing}}


def _rolling(size: str, value: int) -> dict[str, Any]:
    batch = {"Type": size, "Value": value}
    return {"RollingUpdatePolicy": {"MaximumBatchSize": batch, "WaitIntervalInSeconds": 0}}


@pytest.mark.parametrize(
    ("deployment", "said"),
    [
        (_blue_green("CANARY", "CanarySize", "CAPACITY_PERCENT", 51), "CanarySize 51 %"),
        (_blue_green("CANARY", "CanarySize", "CAPACITY_PERCENT", 50), None),
        (_blue_green("CANARY", "CanarySize", "INSTANCE_COUNT", 6), "CanarySize 6 of 10 instances"),
        (_blue_green("CANARY", "CanarySize", "INSTANCE_COUNT", 5), None),
        (_blue_green("CANARY"), "CanarySize is required"),
        (_blue_green("LINEAR", "LinearStepSize", "CAPACITY_PERCENT", 9), "LinearStepSize 9 %"),
        (_blue_green("LINEAR", "LinearStepSize", "CAPACITY_PERCENT", 10), None),
        (_blue_green("LINEAR", "LinearStepSize", "CAPACITY_PERCENT", 51), "LinearStepSize 51 %"),
        (_blue_green("LINEAR"), "LinearStepSize is required"),
        (_blue_green("ALL_AT_ONCE"), None),
        (None, None),
        (_rolling("CAPACITY_PERCENT", 4), "MaximumBatchSize 4 %"),
        (_rolling("CAPACITY_PERCENT", 5), None),
        (_rolling("CAPACITY_PERCENT", 51), "MaximumBatchSize 51 %"),
        (_rolling("INSTANCE_COUNT", 6), "MaximumBatchSize 6 of 10"),
        (_rolling("CAPACITY_PERCENT", 50) | _blue_green("ALL_AT_ONCE"), "not both"),
    ],
)
def test_a_batch_beyond_half_of_the_instances_is_rejected(
    deployment: dict[str, Any] | None, said: str | None
) -> None:
    with pytest.raises(SageMakerError, match=said) if said else nullcontext():
        check_deployment(deployment, instances=10)
    one = _blue_green("CANARY", "CanarySize", "INSTANCE_COUNT", 1)
    check_deployment(one, instances=1)


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
    one = {"RuntimeConfig": {"CopyCount": 1}}
    component = one | {"EndpointName": "shared", "VariantName": "primary"}
    needs = {"MinMemoryRequiredInMb": 128}
    source = {"S3DataType": "S3Prefix", "S3Uri": archive}
    job = {
        "TransformInput": {"DataSource": {"S3DataSource": source}},
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
