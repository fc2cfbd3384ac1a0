"""endpoint.protect: neither `cdk destroy` nor a rename deletes the endpoint."""

import pytest
from aws_cdk.assertions import Template

from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesised, stack_of

PROTECTED = VALID.replace('name = "ranker"', 'name = "ranker"\nprotect = true')


@pytest.mark.parametrize(("text", "protected"), [(VALID, False), (PROTECTED, True)])
def test_a_protected_stack_is_not_destroyed(
    environment: Environment, text: str, protected: bool
) -> None:
    assert bool(stack_of(environment, text).termination_protection) is protected


def policies(environment: Environment, text: str) -> tuple[str | None, str | None]:
    found = Synthesised(dict(Template.from_stack(stack_of(environment, text)).to_json()))
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    resource = found.template["Resources"][endpoint]
    return resource.get("DeletionPolicy"), resource.get("UpdateReplacePolicy")


@pytest.mark.parametrize(("text", "policy"), [(VALID, None), (PROTECTED, "Retain")])
def test_a_protected_endpoint_outlives_its_rename(
    environment: Environment, text: str, policy: str | None
) -> None:
    assert policies(environment, text)[1] == policy


@pytest.mark.parametrize(("text", "policy"), [(VALID, None), (PROTECTED, "RetainExceptOnCreate")])
def test_a_protected_endpoint_outlives_its_stack_but_not_its_own_failed_creation(
    environment: Environment, text: str, policy: str | None
) -> None:
    assert policies(environment, text)[0] == policy
