"""What `servable plan` reads of a live environment, in answers that botocore holds to AWS's own shapes."""

import datetime
import functools
import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from botocore.stub import ANY, Stubber

from infra.parameters.loading import ValidFile
from infra.policy.update import DeployedVariant
from model_packaging.refusal import PackagingError
from servable.plan import live
from servable.plan.live import LiveState, read_live_state
from tests.conftest import VALID, Environment, valid

ACCOUNT, STACK = "111111111111", "prod-endpoint"
AT = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
NAMES = {"EndpointName": "ranker", "EndpointConfigName": "config-7"}
TEMPLATE = {"Resources": {"Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": NAMES}}}
ARN = "arn:aws:sagemaker:eu-west-1:111111111111"


TARGET = {
    "ServiceNamespace": "sagemaker", "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    "MinCapacity": 1, "MaxCapacity": 4, "RoleARN": f"arn:aws:iam::{ACCOUNT}:role/scaling", "CreationTime": AT,
}  # fmt: skip


@functools.cache
def client(service: str) -> Any:
    return boto3.client(
        service, region_name="eu-west-1", aws_access_key_id="x", aws_secret_access_key="x"
    )


def variant(name: str, **more: Any) -> dict[str, Any]:
    return {"VariantName": name, "ModelName": "model", "InstanceType": "ml.c5.xlarge", **more}


def look(
    loaded: ValidFile,
    *,
    account: str = ACCOUNT,
    status: str | None = "UPDATE_COMPLETE",
    running: Sequence[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    pages: tuple[tuple[str, ...], ...] = ((),),
    exists: bool = True,
    groups: Sequence[str] = (),
    other: bool = False,
) -> LiveState:
    """Read an account whose services answer so, and expect exactly these calls."""
    services = ("sts", "cloudformation", "sagemaker", "application-autoscaling", "logs")
    stubs = [Stubber(client(service)) for service in services]
    sts, stack, sagemaker, scaling, logs = stubs
    sts.add_response("get_caller_identity", {"Account": account})
    if status is None:
        message = f"Stack with id {STACK} does not exist"
        stack.add_client_error("describe_stacks", "ValidationError", message)
    else:
        one = {"StackName": STACK, "CreationTime": AT, "StackStatus": status}
        one["Tags"] = [{"Key": "team", "Value": "search"}]
        stack.add_response("describe_stacks", {"Stacks": [one]}, {"StackName": STACK})
        asked = {"StackName": STACK, "TemplateStage": "Original"}
        stack.add_response("get_template", {"TemplateBody": json.dumps(TEMPLATE)}, asked)
    new = loaded.environment.endpoint.name
    asked = {"logGroupNamePrefix": f"/aws/sagemaker/Endpoints/{new}"}
    found = {"logGroups": [{"logGroupName": one} for one in groups]}
    logs.add_response("describe_log_groups", found, asked)
    described = {
        **NAMES,
        "EndpointArn": f"{ARN}:endpoint/ranker",
        "EndpointStatus": "InService",
        "CreationTime": AT,
        "LastModifiedTime": AT,
        **({"ProductionVariants": [*running]} if running else {}),
    }
    deployed = status not in (None, "REVIEW_IN_PROGRESS", "DELETE_COMPLETE")
    asked_for = [("ranker", exists)]
    if new != "ranker" or not deployed:
        asked_for.append((new, other or (new == "ranker" and exists)))
    for endpoint, is_there in asked_for:
        if is_there:
            sagemaker.add_response("describe_endpoint", described, {"EndpointName": endpoint})
        else:
            message = f'Could not find endpoint "{ARN}:endpoint/{endpoint}".'
            sagemaker.add_client_error("describe_endpoint", "ValidationException", message)
    configured = {
        "EndpointConfigName": "config-7",
        "EndpointConfigArn": f"{ARN}:endpoint-config/config-7",
        "CreationTime": AT,
        "ProductionVariants": [variant("primary")],
        **(config or {}),
    }
    asked = {"EndpointConfigName": "config-7"}
    sagemaker.add_response("describe_endpoint_config", configured, asked)
    for number, resources in enumerate(pages):
        answer: dict[str, Any] = {
            "ScalableTargets": [TARGET | {"ResourceId": one} for one in resources]
        }
        if number + 1 < len(pages):
            answer["NextToken"] = f"page {number + 1}"
        asked = {"ServiceNamespace": "sagemaker"} | ({"NextToken": ANY} if number else {})
        scaling.add_response("describe_scalable_targets", answer, asked)
    with ExitStack() as active:
        for stub in stubs:
            active.enter_context(stub)
        return read_live_state(loaded, client)


@pytest.fixture
def loaded(environment: Environment) -> ValidFile:
    return valid(environment(VALID))


def test_a_variant_scales_if_a_page_has_its_own_scalable_target(loaded: ValidFile) -> None:
    for pages, scales in [
        ((("endpoint/ranker/variant/primary",),), True),
        (((), (), ("endpoint/ranker/variant/primary",)), True),
        ((("endpoint/RANKER/variant/primary",),), True),
        ((("endpoint/ranker/variant/second",),), False),
        ((("endpoint/ranker-2/variant/primary",),), False),
        ((("endpoint/other/variant/primary",),), False),
        ((("inference-component/primary",),), False),
    ]:
        assert look(loaded, pages=pages).variants["primary"].scales is scales


def test_stack_endpoint_and_variants_are_what_aws_answers(loaded: ValidFile) -> None:
    found = look(loaded)
    assert replace(found, variants={}) == LiveState(
        stack_status="UPDATE_COMPLETE",
        template=TEMPLATE,
        tags={"team": "search"},
        endpoint_name="ranker",
        endpoint_status="InService",
    )
    running: list[dict[str, Any]] = [
        {"VariantName": "primary", "CurrentInstanceCount": 3},
        {"VariantName": "serverless"},
    ]
    assert look(loaded, running=running).instances == {"primary": 3}
    queue = {"AsyncInferenceConfig": {"OutputConfig": {"S3OutputPath": "s3://a/b"}}}
    assert (look(loaded).queued, look(loaded, config=queue).queued) == (False, True)

    bare = {"ProductionVariants": [{"VariantName": "a", "InstanceType": "ml.c5.xlarge"}]}
    assert (look(loaded).components, look(loaded, config=bare).components) == (False, True)
    assert not live.has_components({})
    assert LiveState().components is False

    pools = [
        {"InstanceType": "ml.c6i.xlarge", "Priority": 2},
        {"InstanceType": "ml.c5.xlarge", "Priority": 1},
    ]
    several = {"VariantName": "b", "ModelName": "model", "InstancePools": pools}
    sizes = {"MemorySizeInMB": 2048, "MaxConcurrency": 5}
    serverless = {"VariantName": "c", "ModelName": "model", "ServerlessConfig": sizes}
    config = {
        "ProductionVariants": [variant("a"), several, serverless],
        "ShadowProductionVariants": [variant("d", InstanceType="ml.m5.xlarge")],
    }
    types = ("ml.c5.xlarge", "ml.c6i.xlarge")
    assert look(loaded, config=config).variants == {
        "a": DeployedVariant(instance_type="ml.c5.xlarge", scales=False),
        "b": DeployedVariant(instance_type=types[0], scales=False, pools=types),
        "c": DeployedVariant(instance_type=None, scales=False),
        "d": DeployedVariant(instance_type="ml.m5.xlarge", scales=False, shadow=True),
    }


def test_a_stack_that_made_nothing_is_none_and_what_is_in_the_way_is_seen(
    loaded: ValidFile, environment: Environment
) -> None:
    for status in ["REVIEW_IN_PROGRESS", "DELETE_COMPLETE"]:
        found = look(loaded, status=status, exists=False)
        assert found == LiveState()
    assert look(loaded, status=None, exists=False) == LiveState()

    found = look(loaded, status=None)
    assert (found.template, found.endpoint_name) == (None, "ranker")
    found = look(loaded, exists=False)
    assert (found.endpoint_name, found.endpoint_status) == ("ranker", None)

    assert look(loaded, groups=["/aws/sagemaker/Endpoints/ranker-2"]).taken == ()
    (taken,) = look(loaded, groups=["/aws/sagemaker/Endpoints/ranker"]).taken
    assert taken.resource == "log group"

    renamed = environment(VALID, **{'name = "ranker"': 'name = "other"'})
    assert look(renamed).endpoint_name == "ranker"
    assert [taken.resource for taken in look(renamed, other=True).taken] == ["endpoint"]


def test_what_cannot_be_read_is_a_sentence_with_its_remedy(loaded: ValidFile) -> None:
    with pytest.raises(PackagingError) as raised:
        look(loaded, account="222222222222")
    assert str(raised.value) == (
        "environments/prod.toml: account is 111111111111, but the credentials belong to 222222222222; "
        "use a profile of that account (AWS_PROFILE)"
    )
    away = EndpointConnectionError(endpoint_url="http://127.0.0.1:1")
    cases: list[tuple[Exception, str]] = [
        (
            NoCredentialsError(),
            "check your credentials and network, or pass --local or --against REF",
        ),
        (away, 'eval "$(servable local up)"'),
    ]
    problem = "environments/prod.toml: cannot read the deployed resources: "
    for error, remedy in cases:
        with pytest.raises(PackagingError) as raised:
            read_live_state(loaded, Mock(side_effect=error))
        assert str(raised.value).startswith(problem)
        assert remedy in str(raised.value)


def test_pools_are_ordered_and_only_a_protected_failed_creation_is_to_be_unlocked() -> None:
    priorities = {"b": 10, "c": 9, "a": 2}
    pools = [{"InstanceType": kind, "Priority": at} for kind, at in priorities.items()]
    assert live.list_instance_types({"InstancePools": pools, "InstanceType": "x"}) == (
        "a",
        "c",
        "b",
    )
    for status, protected, commands in [
        ("ROLLBACK_COMPLETE", True, 1),
        ("ROLLBACK_FAILED", True, 1),
        ("ROLLBACK_COMPLETE", False, 0),
        ("CREATE_COMPLETE", True, 0),
        ("UPDATE_ROLLBACK_COMPLETE", True, 0),
    ]:
        stack = {
            "StackName": "prod-endpoint",
            "StackId": "arn:aws:cloudformation:eu-west-1:123456789012:stack/prod-endpoint/1",
            "StackStatus": status,
            "EnableTerminationProtection": protected,
        }
        command = live.build_unlocking_command(stack) or ""
        assert command.count("--stack-name prod-endpoint --region eu-west-1") == commands
