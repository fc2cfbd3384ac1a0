"""An endpoint of inference components, whose variants name no model, in `servable plan` and `verify`."""

from types import SimpleNamespace
from typing import Any, cast

from servable.plan.live import LiveState, _read_endpoint_state
from servable.plan.plan import _decide_verdict
from servable.verify.command import describe_patching
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import Difference
from servable.verify.endpoint import compare_endpoints
from servable.verify.golden import KIND, NO_ANSWER
from tests.servable.test_cost import environment

LIVE = {
    "EndpointName": "ranker",
    "EndpointConfigName": "by-hand",
    "EndpointStatus": "InService",
    "ProductionVariants": [{"VariantName": "AllTraffic", "CurrentInstanceCount": 0}],
}
CONFIG = {
    "ExecutionRoleArn": "arn:aws:iam::111111111111:role/serving",
    "ProductionVariants": [{"VariantName": "AllTraffic", "InstanceType": "ml.g5.xlarge"}],
}


class Client:
    """Every service: it describes the endpoint, and has no stack and no scalable target."""

    exceptions = SimpleNamespace(ClientError=RuntimeError)

    def describe_endpoint(self, **_: Any) -> dict[str, Any]:
        return LIVE

    def describe_endpoint_config(self, **_: Any) -> dict[str, Any]:
        return CONFIG

    def describe_stacks(self, **_: Any) -> dict[str, Any]:
        return {"Stacks": [{"StackStatus": "DELETE_COMPLETE"}]}

    def get_paginator(self, _: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: [{"ScalableTargets": [], "logGroups": []}])


def resource(kind: str, physical: str = "", **properties: Any) -> Resource:
    return Resource(logical=kind, type=kind, physical=physical, properties=properties)


def deployed(*resources: Resource) -> DeployedStack:
    account = cast("Any", SimpleNamespace(client=lambda _: Client()))
    return DeployedStack(
        account=account, name="s", status="UPDATE_COMPLETE", template={}, resources=resources
    )


def test_plan_refuses_only_components_that_the_stack_did_not_make() -> None:
    now = _read_endpoint_state(environment(), "prod-endpoint", lambda _: Client())
    loaded = cast("Any", SimpleNamespace(name="prod"))
    said, (reason,) = _decide_verdict(loaded, "ranker", now, {}, True)
    assert (said, reason.split(":")[0]) == (
        "refused",
        "ranker hosts inference components, which this stack did not create",
    )

    made = {"Resources": {"Component": {"Type": "AWS::SageMaker::InferenceComponent"}}}
    now = LiveState(
        stack_status="UPDATE_COMPLETE", template=made, components=True, endpoint_status="InService"
    )
    loaded = cast("Any", SimpleNamespace(name="prod", environment=environment()))
    result, _ = _decide_verdict(loaded, "ranker", now, made, False)
    assert result == "nothing"
    assert LiveState().components is False


def test_verify_names_it_once_and_compares_no_variant() -> None:
    stack = deployed(
        resource("AWS::SageMaker::Endpoint", EndpointName="ranker", EndpointConfigName="by-hand"),
        resource("AWS::SageMaker::EndpointConfig", ProductionVariants=[]),
    )
    assert [one.kind for one in compare_endpoints(stack)] == ["inference components"]


MODEL = resource("AWS::SageMaker::Model", ExecutionRoleArn="arn:aws:iam::111111111111:role/serving")
ROLE = resource("AWS::IAM::Role", "serving")


def difference(kind: str, name: str) -> Difference:
    return Difference(kind=kind, resource=name, remedy="deploy again")


def test_what_keeps_aws_from_patching_is_named() -> None:
    assert describe_patching(deployed(MODEL, ROLE), []).startswith("yes")
    gone = [difference("artefact missing", "s3://b/k"), difference("role trust", "serving")]
    assert describe_patching(deployed(MODEL, ROLE), gone) == (
        "no, because of its model: artefact missing (s3://b/k); "
        "execution role: role trust (serving)"
    )
    for wanted, begins in [("0.187", "yes"), (NO_ANSWER, "no, because of its health")]:
        other = Difference(
            kind=KIND, resource="ranker/primary", wanted=wanted, found="-0.087", remedy=""
        )
        assert describe_patching(deployed(MODEL, ROLE), [other]).startswith(begins)
    assert describe_patching(
        deployed(MODEL, ROLE), [difference("role trust", "sender")]
    ).startswith("yes")
