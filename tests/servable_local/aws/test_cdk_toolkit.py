"""The stack of `cdk bootstrap`, created from the CDK CLI's template without running the CLI."""

from pathlib import Path

import pytest

from servable_local.aws.local_aws import BootstrapError, bootstrap, find_template
from tests.servable_local.aws.local_account import Account


def test_a_stack_that_exists_is_left_alone_and_needs_no_cli(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    own = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    account.deploy(own, "CDKToolkit")
    assert bootstrap(account.aws, account=account.number, region="us-east-1", folder=tmp_path)
    resources = account.client("cloudformation").list_stack_resources(StackName="CDKToolkit")
    assert [one["LogicalResourceId"] for one in resources["StackResourceSummaries"]] == ["Topic"]


def test_without_the_cdk_cli_nothing_is_created(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not bootstrap(account.aws, account=account.number, region="us-east-1", folder=tmp_path)
    assert account.client("cloudformation").describe_stacks()["Stacks"] == []


def test_the_cli_on_the_path_precedes_the_one_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = []
    for name in ("global", "project/node_modules"):
        package = tmp_path / name / "aws-cdk"
        templates.append(package / "lib/api/bootstrap/bootstrap-template.yaml")
        templates[-1].parent.mkdir(parents=True)
        templates[-1].touch()
    program = tmp_path / "global/aws-cdk/bin/cdk"
    program.parent.mkdir()
    program.touch(mode=0o700)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/cdk").symlink_to(program)
    folder = tmp_path / "project/.servable"
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert find_template(folder) == templates[1]
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    assert find_template(folder) == templates[0]


def test_a_stack_that_fails_is_reported_with_its_address(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("Resources: {A: {Type: 'AWS::DynamoDB::Table'}}")
    monkeypatch.setenv("PATH", str(tmp_path))
    place = {"account": account.number, "region": "us-east-1"}
    for _ in range(2):  # a stack that was rolled back doesn't count as bootstrapped
        with pytest.raises(
            BootstrapError, match=f"cannot bootstrap aws://{account.number}/us-east-1"
        ):
            bootstrap(account.aws, **place, folder=tmp_path)
