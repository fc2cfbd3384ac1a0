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


@pytest.mark.parametrize(("text", "policy"), [(VALID, None), (PROTECTED, "Retain")])
@pytest.mark.parametrize("attribute", ["DeletionPolicy", "UpdateReplacePolicy"])
def test_a_protected_endpoint_outlives_its_rename(
    environment: Environment, text: str, policy: str | None, attribute: str
) -> None:
    found = Synthesised(dict(Template.from_stack(stack_of(environment, text)).to_json()))
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    assert found.template["Resources"][endpoint].get(attribute) == policy
