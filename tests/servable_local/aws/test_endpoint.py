"""An endpoint runs what was deployed: made, updated, failed, removed."""

import copy
import json
from dataclasses import dataclass

import pytest

from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long


def _ask(account: Account, **more: str) -> dict[str, object]:
    runtime = account.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(EndpointName="ranker", Body=b"x", **more)
    return dict(json.loads(answer["Body"].read()))


@pytest.fixture(scope="module")
def served(embedded: LocalAws, launcher: Launcher) -> Account:
    """One for all who only look."""
    account = Account(embedded, launcher)
    archive = account.put_archive(b"this very archive")
    account.deploy(serving(archive, variables={"SAGEMAKER_X": "7"}))
    return account


def test_an_endpoint_is_as_its_template_declares_it(served: Account) -> None:
    assert _ask(served)["archive"] == "this very archive"
    # The second is the image's own: which version's code it holds.
    assert _ask(served)["variables"] == {"SAGEMAKER_X": "7", "SAGEMAKER_TFS_VERSION": "2.20"}
    assert served.output("ModelRef").startswith("arn:aws:sagemaker:us-east-1:")
    assert ":endpoint-config/" in served.output("ConfigRef")
    assert served.output("EndpointRef").endswith(":endpoint/ranker")
    assert served.output("EndpointName") == "ranker"

    sagemaker = served.client("sagemaker")
    name = sagemaker.describe_endpoint(EndpointName="ranker")["EndpointConfigName"]
    found = sagemaker.describe_endpoint_config(EndpointConfigName=name)["ProductionVariants"][0]
    config = serving("s3://any")["Resources"]["Config"]
    wanted = config["Properties"]["ProductionVariants"][0]
    del found["ModelName"], wanted["ModelName"]
    assert found == wanted


def test_what_sagemaker_refuses_fails_by_name(account: Account) -> None:
    template = serving(account.put_archive(b"a"))
    variants = template["Resources"]["Config"]["Properties"]["ProductionVariants"]
    variants[0]["InstanceType"] = "ml.c5.3xlarge"
    account.deploy(template)
    assert "ml.c5.3xlarge is not a valid enum value" in account.reason("Config", "CREATE_FAILED")

    account = account.another()
    account.put_archive(b"a")
    account.deploy(serving(f"s3://archives-{account.number}/absent.tar.gz"))
    reason = account.reason("Model", "CREATE_FAILED")
    assert f"Could not find model data at s3://archives-{account.number}/absent" in reason

    account = account.another()
    template = serving(account.put_archive(b"a"))
    role = template["Resources"]["Role"]["Properties"]["AssumeRolePolicyDocument"]
    role["Statement"][0]["Principal"] = {"Service": "lambda.amazonaws.com"}
    account.deploy(template)
    assert "Could not assume role" in account.reason("Model", "CREATE_FAILED")

    account = account.another()
    template = serving(account.put_archive(b"a"))
    trust = template["Resources"]["Role"]["Properties"]["AssumeRolePolicyDocument"]
    arn = f"arn:aws:sagemaker:*:{account.number}:endpoint/ranker"
    trust["Statement"][0]["Condition"] = {"ArnLike": {"aws:SourceArn": arn}}
    account.deploy(template)
    assert "Could not assume role" in account.reason("Model", "CREATE_FAILED")


def test_an_update_makes_the_new_before_it_removes_the_old(account: Account) -> None:
    account.deploy(serving(account.put_archive(b"old", "old")))
    count = len(account.events())
    account.deploy(serving(account.put_archive(b"new", "new")))
    assert [event for event in account.events()[count:] if event[1] in _ENDS] == [
        ("Model", "UPDATE_COMPLETE"),
        ("Config", "UPDATE_COMPLETE"),
        ("Endpoint", "UPDATE_COMPLETE"),
        ("Config", "DELETE_COMPLETE"),
        ("Model", "DELETE_COMPLETE"),
        ("stack", "UPDATE_COMPLETE"),
    ]
    assert _ask(account)["archive"] == "new"


_ENDS = ("UPDATE_COMPLETE", "DELETE_COMPLETE")


def test_old_containers_end(account: Account, launcher: Launcher) -> None:
    old = f"old {account.number}".encode()
    account.deploy(serving(account.put_archive(old, "old")))
    account.deploy(serving(account.put_archive(b"new", "new")))
    assert launcher.serving(old) == []

    account = account.another()
    mine = f"mine {account.number}".encode()
    account.deploy(serving(account.put_archive(mine)))
    account.delete()
    assert launcher.serving(mine) == []


@pytest.fixture(scope="module")
def not_created(embedded: LocalAws, launcher: Launcher) -> Account:
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"BROKEN")))
    return account


def test_a_failed_creation_says_why_and_leaves_nothing(not_created: Account) -> None:
    reason = not_created.reason("Endpoint", "CREATE_FAILED")
    assert reason == "The container did not answer its ping within 60 s."
    assert not_created.status() == "ROLLBACK_COMPLETE"
    assert [kind for kind, _ in not_created.inventory()] == ["AWS::S3::Bucket"]


@dataclass(frozen=True)
class FailedUpdate:
    account: Account
    before: list[tuple[str, str]]


@pytest.fixture(scope="module")
def not_updated(embedded: LocalAws, launcher: Launcher) -> FailedUpdate:
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"good", "good")))
    broken = serving(account.put_archive(b"BROKEN", "broken"))
    before = account.inventory()
    account.deploy(broken)
    return FailedUpdate(account, before)


def test_a_failed_update_leaves_what_was_there_serving(not_updated: FailedUpdate) -> None:
    assert not_updated.account.status() == "UPDATE_ROLLBACK_COMPLETE"
    assert _ask(not_updated.account)["archive"] == "good"
    assert not_updated.account.inventory() == not_updated.before


def test_a_failed_update_disturbs_nobody(account: Account) -> None:
    account.deploy(serving(account.put_archive(b"good", "good")))
    account.deploy(serving(account.put_archive(b"BROKEN", "broken")))
    assert account.deploy(serving(account.put_archive(b"new", "new"))) == "UPDATE_COMPLETE"

    account = account.another()
    account.deploy(serving(account.put_archive(b"good", "good")))
    account.deploy(serving(account.put_archive(b"BROKEN", "broken")), wait=False)
    answers = set()
    while account.status().endswith("_IN_PROGRESS"):
        answers.add(_ask(account)["archive"])
    assert answers <= {"good"}
    assert _ask(account)["archive"] == "good"


def _two_variants(account: Account, weights: tuple[int, int]) -> None:
    template = serving(account.put_archive(b"a"))
    other = copy.deepcopy(template["Resources"]["Model"])
    other["Properties"]["PrimaryContainer"]["Environment"] = {"WHO": "second"}
    template["Resources"]["Second"] = other
    variants = template["Resources"]["Config"]["Properties"]["ProductionVariants"]
    variants.append(copy.deepcopy(variants[0]))
    variants[1] |= {
        "VariantName": "second",
        "ModelName": {"Fn::GetAtt": ["Second", "ModelName"]},
    }
    for variant, weight in zip(variants, weights, strict=True):
        variant["InitialVariantWeight"] = weight
    account.deploy(template)


def test_requests_go_to_the_target_variant_or_in_proportion_to_weights(account: Account) -> None:
    _two_variants(account, (1, 0))
    assert _ask(account, TargetVariant="second")["variables"] == {
        "WHO": "second",
        "SAGEMAKER_TFS_VERSION": "2.20",
    }

    _two_variants(account, (0, 1))
    runtime = account.client("sagemaker-runtime")
    answers = [runtime.invoke_endpoint(EndpointName="ranker", Body=b"x") for _ in range(10)]
    assert {answer["InvokedProductionVariant"] for answer in answers} == {"second"}

    _two_variants(account, (3, 1))
    runtime = account.client("sagemaker-runtime")
    answers = [runtime.invoke_endpoint(EndpointName="ranker", Body=b"x") for _ in range(8)]
    found = [answer["InvokedProductionVariant"] for answer in answers]
    assert (found.count("primary"), found.count("second")) == (6, 2)
