"""endpoint.protect: neither `cdk destroy` nor a rename deletes the endpoint."""

from aws_cdk.assertions import Template

from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesised, stack_of

PROTECTED = VALID.replace('name = "ranker"', 'name = "ranker"\nprotect = true')


def test_a_protected_stack_and_its_endpoint_are_not_destroyed(environment: Environment) -> None:
    for text, protected in [(VALID, False), (PROTECTED, True)]:
        assert bool(stack_of(environment, text).termination_protection) is protected
    for text, policy in [(VALID, None), (PROTECTED, "Retain")]:
        assert policies(environment, text)[1] == policy
    for text, policy in [(VALID, None), (PROTECTED, "RetainExceptOnCreate")]:
        assert policies(environment, text)[0] == policy


def policies(environment: Environment, text: str) -> tuple[str | None, str | None]:
    found = Synthesised(dict(Template.from_stack(stack_of(environment, text)).to_json()))
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    resource = found.template["Resources"][endpoint]
    return resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")
