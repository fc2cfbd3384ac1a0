"""Every operation of hosting, invocation, and scaling rejects what botocore's model of it excludes."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from botocore import xform_name
from botocore.exceptions import ClientError

from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import load_service_model
from servable_local.aws.moto_patches.every_service import has_no_effect
from servable_local.aws.resources.resource_type import list_violations
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.endpoint_update import check_deployment
from servable_local.aws.sagemaker.model_api import reject_mixed_kinds
from servable_local.aws.sagemaker.runtime_api import list_violated_limits
from servable_local.aws.scaling.api import ScalingApi
from tests.servable_local.aws.boto_members import scalable
from tests.servable_local.aws.deployed_templates import IMAGE, serving
from tests.servable_local.aws.local_account import Account, refused
from tests.servable_local.aws.test_aws_answers import client

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


@pytest.fixture(scope="module")
def account(accounts: Account) -> Account:
    """With the endpoint `ranker` of one variant, `primary`."""
    account = accounts.another()
    account.deploy(serving(account.put_archive(b"a")))
    return account


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


def test_a_models_a_configurations_and_scalings_limits_are_said(account: Account) -> None:
    said = _refuse_model(account, "many", {f"A{n}": "x" for n in range(101)})
    assert said == (
        "1 validation error detected: Value at 'primaryContainer.environment' failed to satisfy "
        "constraint: Member must have length less than or equal to 100"
    )
    said = _refuse_model(account, "long", {"A": "x" * 1025})
    assert "'primaryContainer.environment.A.member' failed" in said
    said = _refuse_model(account, "with_underscore", {"A": "x" * 1025})
    assert said.startswith("2 validation errors detected: ")
    assert "Value at 'modelName' failed to satisfy constraint" in said
    assert "secret" not in _refuse_model(account, "long", {"A": "secret" * 200})

    said = _refuse_config(account, *(f"v{n}" for n in range(11)))
    assert "'productionVariants' failed to satisfy constraint" in said
    assert "must differ" in _refuse_config(account, "one", "one")
    said = _refuse_config(account, "one", VolumeSizeInGB=513)
    assert "'productionVariants.1.member.volumeSizeInGB' failed" in said
    said = refused(account.scale, least=3, most=2)
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
