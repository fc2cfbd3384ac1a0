"""`servable verify` of an endpoint of inference components, and what keeps AWS from patching one."""

from unittest.mock import Mock

from servable.verify.command import describe_patching
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import Difference
from servable.verify.endpoint import compare_endpoints
from servable.verify.golden import KIND, NO_ANSWER

ROLE_ARN = "arn:aws:iam::111111111111:role/serving"
VARIANT = {"VariantName": "AllTraffic", "ModelName": "ranker", "InitialVariantWeight": 1}


def resource(kind: str, physical: str = "", **properties: object) -> Resource:
    return Resource(logical=kind, type=f"AWS::{kind}", physical=physical, properties=properties)


def deployed(*resources: Resource) -> DeployedStack:
    """A stack whose endpoint's variant names no model."""
    account = Mock()
    account.client().describe_endpoint.return_value = {
        "EndpointName": "ranker", "EndpointConfigName": "by-hand", "EndpointStatus": "InService",
        "ProductionVariants": [{"VariantName": "AllTraffic", "CurrentInstanceCount": 0}],
    }  # fmt: skip
    variant = {"VariantName": "AllTraffic", "InstanceType": "ml.g5.xlarge"}
    config = {"ExecutionRoleArn": ROLE_ARN, "ProductionVariants": [variant]}
    account.client().describe_endpoint_config.return_value = config
    return DeployedStack(
        account=account, name="s", status="UPDATE_COMPLETE", template={}, resources=resources
    )


def test_verify_names_it_once_and_compares_no_variant() -> None:
    stack = deployed(
        resource("SageMaker::Endpoint", EndpointName="ranker", EndpointConfigName="by-hand"),
        resource("SageMaker::EndpointConfig", ProductionVariants=[VARIANT]),
    )
    (found,) = compare_endpoints(stack)
    assert isinstance(found, Difference)
    assert found.kind == "inference components"


def test_what_keeps_aws_from_patching_is_named() -> None:
    model = resource("SageMaker::Model", ExecutionRoleArn=ROLE_ARN)
    stack = deployed(model, resource("IAM::Role", "serving"))

    def describe(*differences: Difference) -> str:
        return describe_patching(stack, [*differences])

    def difference(kind: str, name: str, **values: str) -> Difference:
        return Difference(kind=kind, resource=name, remedy="deploy again", **values)

    assert describe().startswith("yes")
    gone = difference("artefact missing", "s3://b/k")
    assert describe(gone, difference("role trust", "serving")) == (
        "no, because of its model: artefact missing (s3://b/k); "
        "execution role: role trust (serving)"
    )
    assert describe(difference("role trust", "sender")).startswith("yes")
    for wanted, begins in [("0.187", "yes"), (NO_ANSWER, "no, because of its health")]:
        other = difference(KIND, "ranker/primary", wanted=wanted, found="-0.087")
        assert describe(other).startswith(begins)
