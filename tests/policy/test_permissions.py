"""Permissions follow a deployment's resources; the execution role's policies fit IAM's limits and actions."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from infra.policy import execution_policy
from infra.policy.execution_policy import DeployedNames, build_statements, list_actions
from infra.policy.permissions import PERMISSIONS, PLACES, select_permissions
from infra.preflight.reference import render_permissions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "permissions.md"
EVERY_PLACE = {place: ["arn"] for place in PLACES}


def test_the_page_lists_every_permission() -> None:
    assert render_permissions() == PAGE.read_text(encoding="utf-8")


def test_a_deployment_has_the_permissions_of_its_resources() -> None:
    assert select_permissions(EVERY_PLACE) == list(PERMISSIONS)
    always = ["log in to the image's registry", "publish metrics"]
    assert [row.capability for row in select_permissions({})] == always


def test_a_resource_that_is_absent_needs_no_permission() -> None:
    for absent in PLACES:
        places = EVERY_PLACE | {absent: []}
        concerned = [row for row in PERMISSIONS if absent in (*row.on, *row.needs)]
        assert select_permissions(places) == [row for row in PERMISSIONS if row not in concerned]


PROD = DeployedNames(
    account="123456789012",
    region="eu-west-1",
    stacks=["prod-endpoint", "prod-data"],
    endpoint="Ranker",
    iam_path="/",
    boundary=None,
    roles=[],
    callers=["arn:aws:iam::123456789012:role/app"],
    keys=[],
    batches=["nightly"],
    sleeps=True,
)
LONG = "a" * 60
BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
# IAM's reference as cfn-lint brings it: service -> actions and the resources that each takes.
# To import it takes seconds.
CFN_LINT = Path(str(importlib.util.find_spec("cfnlint").origin)).parent  # type: ignore[union-attr]
REFERENCE: dict[str, Any] = json.loads(
    (CFN_LINT / "data" / "AdditionalSpecs" / "Policies.json").read_text(encoding="utf-8")
)
# What the handlers state and that reference does not know: names of operations of S3. They allow nothing.
NO_ACTIONS = "s3:(Delete.*|PutBucketReplication|PutObjectLockConfiguration)"


def changed(**values: Any) -> DeployedNames:
    return DeployedNames(**{**vars(PROD), **values})


def known(action: str) -> Any:
    """Return an action as IAM's reference has it, or None."""
    service, name = action.split(":")
    return REFERENCE[service]["Actions"].get(name.lower())


def by_name(*deployed: DeployedNames) -> dict[str, dict[str, Any]]:
    return {one["Sid"]: one for one in build_statements(deployed or [PROD])}


@pytest.mark.parametrize(
    "deployed",
    [
        [PROD],
        [
            changed(
                endpoint=LONG, stacks=[LONG, LONG + "b"], iam_path=f"/{LONG}/", boundary=BOUNDARY
            )
        ],
        [changed(endpoint=f"{LONG}{n}", stacks=[f"{n}-endpoint", f"{n}-data"]) for n in range(5)],
    ],
    ids=["one", "long names", "five environments"],
)
def test_no_policy_is_longer_than_iam_allows(deployed: list[DeployedNames]) -> None:
    assert (
        max(map(execution_policy.count_characters, execution_policy.build_policies(deployed)))
        <= execution_policy.MOST_CHARACTERS
    )


def test_every_action_is_allowed_once_known_to_iam_and_needed_by_a_template() -> None:
    allowed = [
        one
        for document in execution_policy.build_policies([PROD])
        for row in document["Statement"]
        for one in row["Action"]
    ]
    assert sorted(allowed) == list_actions()
    unknown = [one for one in list_actions() if known(one) is None]
    assert [one for one in unknown if not re.fullmatch(NO_ACTIONS, one)] == []
    assert [one for one in list_actions() if re.fullmatch(execution_policy.LEFT_OUT, one)] == []


def test_an_action_takes_one_of_the_resources_that_its_statement_names() -> None:
    """The resource of an action without resources is a star, or the action would be allowed on nothing."""
    for statement in by_name().values():
        for action in statement["Action"]:
            resources = REFERENCE[action.split(":")[0]]["Resources"]
            found = known(action)
            taken = ["bucket"] if found is None else found.get("Resources", [])
            forms = [form for one in taken for form in resources[one.lower()]["ARNFormats"]]
            pattern = "|".join(re.sub(r"\$\{\w+\}", "[^:]*", form) for form in forms)
            allowed = [one == "*" or re.fullmatch(pattern, one) for one in statement["Resource"]]
            assert any(allowed), action
    assert [name for name, one in by_name().items() if "*" in one["Resource"]] == ["AnyResource"]


def test_without_a_batch_or_sleep_nothing_of_theirs_is_allowed() -> None:
    document = json.dumps(list(build_statements([changed(batches=[])])))
    for absent in ["states:", "states.amazonaws", "scheduler:", "scheduler.amazonaws"]:
        assert absent not in document
    document = json.dumps(list(build_statements([changed(sleeps=False)])))
    assert not re.search("(?i)inference-?component", document)


def test_arns_are_of_the_partition_and_both_spellings_for_all_environments() -> None:
    partitions = {"eu-west-1": "aws", "cn-north-1": "aws-cn", "us-gov-west-1": "aws-us-gov"}
    for region, partition in partitions.items():
        (arn, *_) = by_name(changed(region=region))["Models"]["Resource"]
        assert arn.split(":")[1] == partition
    where = "arn:aws:sagemaker:eu-west-1:123456789012:endpoint"
    assert by_name()["Endpoints"]["Resource"] == [f"{where}/ranker", f"{where}/Ranker"]
    other = changed(endpoint="detector", stacks=["staging-endpoint", "staging-data"])
    assert by_name(PROD, other)["Models"] == by_name()["Models"]


def test_roles_get_the_stacks_policies_and_go_to_the_services_of_an_endpoint_alone() -> None:
    condition = by_name()["Holders"]["Condition"]["ArnLike"]["iam:PolicyARN"]
    assert condition == [f"arn:aws:iam::123456789012:policy/{name}*" for name in PROD.stacks]
    services = by_name()["PassedRoles"]["Condition"]["StringEquals"]["iam:PassedToService"]
    assert services[:2] == ["sagemaker.amazonaws.com", "lambda.amazonaws.com"]


def test_with_a_boundary_no_role_is_made_without_it_and_none_is_taken_off() -> None:
    rows = list(build_statements([changed(boundary=BOUNDARY)]))
    made = next(row for row in rows if "iam:CreateRole" in row["Action"])
    assert made["Condition"] == {"StringEquals": {"iam:PermissionsBoundary": [BOUNDARY]}}
    allowed = {action for row in rows for action in row["Action"]}
    assert "iam:DeleteRolePermissionsBoundary" not in allowed


def test_log_groups_are_those_of_endpoint_components_golden_requests_and_batches() -> None:
    names = {arn.split(":log-group:")[1] for arn in by_name()["LogGroups"]["Resource"]}
    groups = {
        "/aws/sagemaker/Endpoints/Ranker",
        "/aws/lambda/Ranker-golden-requests",
        "/aws/vendedlogs/states/Ranker-nightly",
    }
    of_components = "/aws/sagemaker/InferenceComponents/Ranker-*"
    assert names == {of_components} | groups | {f"{group}:*" for group in groups}
