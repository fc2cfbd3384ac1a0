"""What `servable plan` reads of a live environment, in answers of AWS's own shapes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from infra.parameters.loading import ValidFile
from infra.policy.update import DeployedVariant
from model_packaging.refusal import PackagingError
from servable.plan import live
from servable.plan.live import LiveState, read_live_state
from tests.conftest import VALID, Environment, valid
from tests.servable.verify.answering import AnsweringAccount, Found

ACCOUNT, STACK = "111111111111", "prod-endpoint"
NAMES = {"EndpointName": "ranker", "EndpointConfigName": "config-7"}
TEMPLATE = {"Resources": {"Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": NAMES}}}


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
    """Read an account whose services answer so, and are asked for this environment's resources alone."""
    stack = {"StackStatus": status, "Tags": [{"Key": "team", "Value": "search"}]}

    def describe(asked: Mapping[str, Any]) -> Found:
        there = {"ranker": exists, "other": other}[asked["EndpointName"]]
        running_ = {"ProductionVariants": running} if running else {}
        missing = 'Could not find endpoint "arn:aws:sagemaker:eu-west-1:111111111111:endpoint/x".'
        return {**NAMES, "EndpointStatus": "InService", **running_} if there else missing

    def scale(asked: Mapping[str, Any]) -> Found:
        assert asked["ServiceNamespace"] == "sagemaker"
        number = int(asked.get("NextToken", 0))
        following = {"NextToken": str(number + 1)} if number + 1 < len(pages) else {}
        return {"ScalableTargets": [{"ResourceId": one} for one in pages[number]], **following}

    aws = AnsweringAccount(
        GetCallerIdentity={"Account": account},
        DescribeStacks={"Stacks": [stack]} if status else f"Stack with id {STACK} does not exist",
        GetTemplate={"TemplateBody": json.dumps(TEMPLATE)},
        DescribeLogGroups={"logGroups": [{"logGroupName": one} for one in groups]},
        DescribeEndpoint=describe,
        DescribeEndpointConfig={"ProductionVariants": [variant("primary")], **(config or {})},
        DescribeScalableTargets=scale,
    )
    found = read_live_state(loaded, aws.client)
    prefix = f"/aws/sagemaker/Endpoints/{loaded.environment.endpoint.name}"
    expected = {
        "DescribeStacks": {"StackName": STACK},
        "GetTemplate": {"StackName": STACK, "TemplateStage": "Original"},
        "DescribeLogGroups": {"logGroupNamePrefix": prefix},
        "DescribeEndpointConfig": {"EndpointConfigName": "config-7"},
    }
    assert [call for call in aws.calls if expected.get(call[0], call[1]) != call[1]] == []
    return found


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
    found = live.list_instance_types({"InstancePools": pools, "InstanceType": "x"})
    assert found == ("a", "c", "b")
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
