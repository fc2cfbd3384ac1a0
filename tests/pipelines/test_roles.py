"""The roles of the pipelines: whom each trusts, and what each may do."""

import json
import re
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk.assertions import Template

from infra.constructs.access.pipeline_role import list_subjects
from infra.parameters.loading import load
from stacks.pipeline_stack import add_pipelines
from tests.conftest import VALID
from tests.pipelines.workflows import FOLDER, read


def stacks(folder: Path, text: str, secret: str | None = None) -> list[cdk.Stack]:
    """The pipelines' stacks of one environment, `prod`."""
    (folder / "prod.toml").write_text(text)
    # The built-in validator takes seconds; `make check` runs its native twin.
    app = cdk.App(outdir=str(folder / "cdk.out"), builtin_cloud_formation_validation=False)
    add_pipelines(app, load(folder, folder), "me@11/mine@22", None, secret)
    return [one for one in app.node.children if isinstance(one, cdk.Stack)]


def made(folder: Path, text: str, secret: str | None = None) -> list[dict[str, Any]]:
    return [dict(Template.from_stack(one).to_json()) for one in stacks(folder, text, secret)]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    (found,) = made(tmp_path_factory.mktemp("pipelines"), VALID)
    return found


def roles(template: dict[str, Any]) -> list[dict[str, Any]]:
    """The properties of each role."""
    resources = template["Resources"].values()
    return [one["Properties"] for one in resources if one["Type"] == "AWS::IAM::Role"]


def conditions(template: dict[str, Any]) -> list[dict[str, Any]]:
    """What each role asks of a token, under StringEquals."""
    found = []
    for role in roles(template):
        (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert set(statement["Condition"]) == {"StringEquals"}
        found.append(statement["Condition"]["StringEquals"])
    return found


def statements(template: dict[str, Any], which: str) -> list[dict[str, Any]]:
    return [
        statement
        for name, one in template["Resources"].items()
        if one["Type"] == "AWS::IAM::Policy" and name.startswith(which)
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
    ]


def test_a_role_trusts_one_subject_as_long_as_the_job(template: dict[str, Any]) -> None:
    for claim in ["environment:prod", "pull_request"]:
        key = "token.actions.githubusercontent.com:sub"
        trusted = [sorted(one[key]) for one in conditions(template)]
        assert sorted([f"repo:me/mine:{claim}", f"repo:me@11/mine@22:{claim}"]) in trusted
        assert len(trusted) == 2
    key = "token.actions.githubusercontent.com:aud"
    assert {one[key] for one in conditions(template)} == {"sts.amazonaws.com"}

    job = read(FOLDER / "deploy-environment.yml")["jobs"]["deploy"]
    given = [step["with"] for step in job["steps"] if "role-to-assume" in step.get("with", {})]
    (asked,) = (one["role-duration-seconds"] for one in given)
    allowed = min(role["MaxSessionDuration"] for role in roles(template))
    assert job["timeout-minutes"] * 60 <= asked <= allowed


@pytest.mark.parametrize("given", ["me/mine", "me@11/mine", "me@11/mi:ne@22", "me@*/mine@*", "me"])
def test_a_repository_without_its_ids_is_refused_with_the_way_to_them(given: str) -> None:
    with pytest.raises(ValueError, match=re.escape(repr(given))) as refused:
        list_subjects(given, "pull_request")
    assert "gh api repos/OWNER/NAME" in str(refused.value)


def test_a_pull_request_may_only_plan_and_diff(template: dict[str, Any]) -> None:
    allowed: dict[str, list[Any]] = {}
    for statement in statements(template, "Compares"):
        for action in listed(statement["Action"]):
            allowed[action] = listed(statement["Resource"])
    stacks = [
        f"arn:${{AWS::Partition}}:cloudformation:eu-west-1:111111111111:stack/prod-{kind}/*"
        for kind in ("data", "endpoint")
    ]
    place = "arn:${AWS::Partition}:sagemaker:eu-west-1:111111111111:"
    assert {action: sorted(map(flat, on)) for action, on in allowed.items()} == {
        "application-autoscaling:DescribeScalableTargets": ["*"],
        "cloudformation:DescribeStacks": stacks,
        "cloudformation:GetTemplate": stacks,
        "logs:DescribeLogGroups": ["*"],
        "sagemaker:DescribeEndpoint": [f"{place}endpoint/ranker"],
        "sagemaker:DescribeEndpointConfig": [f"{place}endpoint-config/*"],
    }


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def flat(resource: Any) -> str:
    if isinstance(resource, str):
        return resource
    parts = resource["Fn::Join"][1]
    return "".join(one if isinstance(one, str) else f"${{{one['Ref']}}}" for one in parts)


def test_a_role_may_no_whole_service_and_only_read_all(template: dict[str, Any]) -> None:
    for statement in statements(template, ""):
        assert [action for action in listed(statement["Action"]) if "*" in action] == []
    for statement in statements(template, "Deploys"):
        if statement["Resource"] == "*":
            verbs = {action.partition(":")[2] for action in statement["Action"]}
            assert all(verb.startswith(("Describe", "Get", "List")) for verb in verbs)

    role = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
    path = f":role/aws-service-role/sagemaker.application-autoscaling.amazonaws.com/{role}"
    assert path in may(template, "iam:GetRole")


def may(template: dict[str, Any], action: str) -> str:
    """What the deploying role may do it to, as JSON."""
    found = [one["Resource"] for one in statements(template, "Deploys") if one["Action"] == action]
    return json.dumps(found)


def test_an_archive_of_another_packer_and_captured_requests_may_be_read(tmp_path: Path) -> None:
    artifact = f'artifact = {{ uri = "s3://runs/17/model.tar.gz", sha256 = "{"0" * 64}" }}'
    text = VALID.replace('saved_model = "model"', artifact)
    (found,) = made(tmp_path, f'{text}[replay]\ncaptured = "s3://captures/ranker/"\n')
    for action, resources in [
        ("s3:GetObject", [":s3:::runs/17/model.tar.gz", ":s3:::captures/ranker/*"]),
        ("s3:ListBucket", [':s3:::runs"', ':s3:::captures"']),
        ("kms:Decrypt", [":key/*"]),
    ]:
        for resource in resources:
            assert resource in may(found, action)


def test_roles_keep_to_boundary_and_path_and_decrypt_through_s3(tmp_path: Path) -> None:
    key, policy = "arn:aws:kms:eu-west-1:111111111111:key/a", "arn:aws:iam::111111111111:policy/b"
    text = VALID.replace('name = "ranker"', f'name = "ranker"\narchive_kms_keys = ["{key}"]', 1)
    rules = f'[security]\npermissions_boundary = "{policy}"\niam_path = "/ci/"\n'
    (template,) = made(tmp_path, text + rules)
    kept = [(role.get("PermissionsBoundary"), role.get("Path")) for role in roles(template)]
    assert kept == [(policy, "/ci/")] * 2
    assert ":role/ci/prod-*" in may(template, "iam:GetRolePolicy")
    (decrypts,) = [one for one in statements(template, "Deploys") if one["Action"] == "kms:Decrypt"]
    through = {"StringEquals": {"kms:ViaService": "s3.eu-west-1.amazonaws.com"}}
    assert (decrypts["Resource"], decrypts["Condition"]) == (key, through)


def test_the_stack_has_the_prefix_of_its_service(tmp_path: Path) -> None:
    (stack,) = stacks(tmp_path, f'service = "ranking"\n{VALID}')
    assert (stack.node.id, stack.stack_name) == ("pipeline-prod", "ranking-pipeline-prod")


@pytest.mark.long
def test_environments_share_a_provider_and_a_queue_takes_requests(tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(VALID.replace('"ranker"', '"other"', 1))
    templates = made(tmp_path, f"{VALID}[asynchronous]\n")
    kinds = [one["Type"] for template in templates for one in template["Resources"].values()]
    assert kinds.count("AWS::IAM::OIDCProvider") == 1
    deploys = [one for template in templates for one in statements(template, "Deploys")]
    (written,) = [json.dumps(one["Resource"]) for one in deploys if one["Action"] == "s3:PutObject"]
    assert written.endswith(':s3:::prod-data-*/requests/*"]]}')


def of_package(folder: Path, package: str, secret: str | None) -> dict[str, Any]:
    uri = "s3://registry/ranker-7/model.tar.gz"
    artifact = f'{{ model_package = "{package}", uri = "{uri}", sha256 = "{"0" * 64}" }}'
    text = VALID.replace('saved_model = "model"', f"artifact = {artifact}")
    (found,) = made(folder, text, secret)
    return found


def test_the_pinning_role_trusts_main_and_only_reads(tmp_path: Path) -> None:
    registered = of_package(tmp_path, "ranker/7", "github/token")
    allowed = {one["Action"]: flat(one["Resource"]) for one in statements(registered, "Pins")}
    groups = "arn:${AWS::Partition}:sagemaker:eu-west-1:111111111111:model-package"
    assert allowed == {
        "sagemaker:ListModelPackages": "*",
        "sagemaker:DescribeModelPackage": f"{groups}/ranker/*",
        "s3:GetObject": "arn:${AWS::Partition}:s3:::registry/*",
    }

    key = "token.actions.githubusercontent.com:sub"
    trusted = [one[key] for one in conditions(registered) if key in one]
    subject = "ref:refs/heads/main"
    assert [f"repo:me/mine:{subject}", f"repo:me@11/mine@22:{subject}"] in trusted

    resources = registered["Resources"].values()
    owned = [one["Properties"]["Policies"] for one in resources if "Policies" in one["Properties"]]
    (policy,) = owned[0]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert statement["Action"] == "events:InvokeApiDestination"
    assert [*statement["Resource"]] == ["Fn::GetAtt"]


@pytest.mark.parametrize(
    ("package", "secret", "rules"),
    [
        ("ranker/7", "github/token", 1),
        ("arn:aws:sagemaker:eu-west-1:111111111111:model-package/ranker/7", "github/token", 1),
        ("arn:aws:sagemaker:eu-west-1:222222222222:model-package/ranker/7", "github/token", 0),
        ("ranker/7", None, 0),
    ],
)
def test_a_rule_hears_of_this_accounts_groups_where_a_token_is_named(
    tmp_path: Path, package: str, secret: str | None, rules: int
) -> None:
    resources = of_package(tmp_path, package, secret)["Resources"].values()
    assert len([one for one in resources if one["Type"] == "AWS::Events::Rule"]) == rules
