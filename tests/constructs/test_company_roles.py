"""What a company asks of roles: its own by ARN, a boundary, a path."""

from collections.abc import Callable

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
BOUNDARY = "arn:aws:iam::111111111111:policy/company/boundary"
SERVING = "arn:aws:iam::111111111111:role/company/serving"
OTHER = "arn:aws:iam::111111111111:role/company/other"
CALLERS = 'name = "ranker"\ncallers = ["arn:aws:iam::111111111111:role/web"]'
RULES = f"""
[security]
permissions_boundary = "{BOUNDARY}"
iam_path = "/service/ranker/"
"""


def endpoint_role(text: str = VALID) -> str:
    return text.replace('name = "ranker"', f'name = "ranker"\nexecution_role = "{SERVING}"', 1)


def test_the_endpoints_role_is_its_models_unless_one_has_its_own(synthesise: Synthesise) -> None:
    found = synthesise(endpoint_role())
    (model,) = found.all("AWS::SageMaker::Model")
    assert model["ExecutionRoleArn"] == SERVING
    assert found.all("AWS::IAM::Role") == found.all("AWS::IAM::Policy") == []

    text = endpoint_role().replace(
        'tensorflow = "2.20"', f'tensorflow = "2.20"\nexecution_role = "{OTHER}"', 1
    )
    (model,) = synthesise(text).all("AWS::SageMaker::Model")
    assert model["ExecutionRoleArn"] == OTHER


def test_every_role_has_the_boundary_and_the_path_that_are_given(synthesise: Synthesise) -> None:
    found = synthesise(VALID.replace('name = "ranker"', CALLERS, 1) + RULES)
    (role,) = found.all("AWS::IAM::Role")
    (policy,) = found.all("AWS::IAM::ManagedPolicy")
    assert (role["PermissionsBoundary"], role["Path"]) == (BOUNDARY, "/service/ranker/")
    assert policy["Path"] == "/service/ranker/"

    (role,) = synthesise().all("AWS::IAM::Role")
    assert not {"PermissionsBoundary", "Path"} & set(role)


@pytest.mark.parametrize("text", [VALID + RULES, endpoint_role()], ids=["path", "role"])
def test_another_role_gives_the_rollback_alarms_other_names(
    synthesise: Synthesise, text: str
) -> None:
    """It replaces the model, so that the alarms of the old configuration must not watch the new."""
    rollout = '[rollout]\nstrategy = "canary"\n'

    def names(of: str) -> set[str]:
        alarms = synthesise(of + rollout).all("AWS::CloudWatch::Alarm")
        return {str(alarm["AlarmName"]) for alarm in alarms if "-rollback-" in alarm["AlarmName"]}

    assert names(text)
    assert not names(text) & names(VALID)
