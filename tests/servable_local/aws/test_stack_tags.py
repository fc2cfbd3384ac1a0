"""What outlives a stack carries the stack's tags, and by them `servable accept --clean` finds it again."""

from typing import Any, cast

import pytest

from infra.policy.acceptance_policy import PREFIX, TAG
from servable.accept.removal import leftovers, remove, taken
from servable.accept.run import AcceptAccount
from servable.aws_account import Account as Reached
from servable_local.aws.local_aws import REGION, LocalAws
from tests.servable_local.aws.local_account import Account

STACK = f"{PREFIX}-main-data"
TAGS = [{"Key": TAG, "Value": "run-1"}]
KEPT = {"DeletionPolicy": "Retain"}
TEMPLATE: dict[str, Any] = {
    "Resources": {
        "Bucket": {
            "Type": "AWS::S3::Bucket",
            "Properties": {"Tags": [{"Key": "own", "Value": "1"}]},
            **KEPT,
        },
        "Key": {"Type": "AWS::KMS::Key", "Properties": {"KeyPolicy": {}}, **KEPT},
    }
}


@pytest.fixture
def reached(account: Account, embedded: LocalAws) -> AcceptAccount:
    """The account as the command reaches it, with a deployed stack of a run."""
    assert account.deploy(TEMPLATE, STACK, Tags=TAGS) == "CREATE_COMPLETE"
    found = cast(AcceptAccount, Reached(region=REGION, number=account.number, aws=embedded))
    found.seconds_per_minute = 0.6
    return found


def the_bucket(account: Account) -> str:
    (bucket,) = account.client("s3").list_buckets()["Buckets"]
    return str(bucket["Name"])


def test_a_bucket_has_its_own_tags_and_the_stacks(account: Account, reached: AcceptAccount) -> None:
    tags = account.client("s3").get_bucket_tagging(Bucket=the_bucket(account))["TagSet"]
    assert {tag["Key"]: tag["Value"] for tag in tags} == {TAG: "run-1", "own": "1"}


def test_what_a_stack_retains_is_found_by_its_tag(account: Account, reached: AcceptAccount) -> None:
    account.delete(STACK)
    found = leftovers(reached)
    assert [(one.kind, one.run) for one in found] == [("bucket", "run-1"), ("key", "run-1")]


def test_a_removal_ends_with_nothing_though_a_bucket_holds_objects(
    account: Account, reached: AcceptAccount, capsys: pytest.CaptureFixture[str]
) -> None:
    account.client("s3").put_object(Bucket=the_bucket(account), Key="a/b", Body=b"x")
    left = remove(reached, minutes=60)
    assert (left, leftovers(reached), account.inventory()) == ([], [], [])
    assert capsys.readouterr().err.splitlines()[0] == f"deleting stack {STACK}"


def test_what_carries_no_tag_is_never_deleted(account: Account, reached: AcceptAccount) -> None:
    other = f"{PREFIX}-of-somebody"
    account.client("s3").create_bucket(Bucket=other)
    remove(reached, minutes=60)
    assert account.inventory() == [("AWS::S3::Bucket", other)]


def test_a_stack_of_our_name_without_the_tag_is_somebodys(
    account: Account, reached: AcceptAccount
) -> None:
    topic = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {}}}}
    account.deploy(topic, f"{PREFIX}-main-endpoint")
    assert taken(reached) == [f"stack {PREFIX}-main-endpoint"]
