"""An endpoint runs what was deployed: made, updated, failed, removed."""

import copy
import json

import pytest

from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long


def _ask(account: Account, **more: str) -> dict[str, object]:
    runtime = account.client("sagemaker-runtime")
    answer = runtime.invoke_endpoint(EndpointName="ranker", Body=b"x", **more)
    return dict(json.loads(answer["Body"].read()))


def test_an_endpoint_is_as_its_template_declares_it(account: Account) -> None:
    archive = account.put_archive(b"this very archive")
    account.deploy(serving(archive, variables={"SAGEMAKER_X": "7"}))
    assert _ask(account)["archive"] == "this very archive"
    # The second is the image's own: which version's code it holds.
    assert _ask(account)["variables"] == {"SAGEMAKER_X": "7", "SAGEMAKER_TFS_VERSION": "2.20"}
    assert account.output("ModelRef").startswith("arn:aws:sagemaker:us-east-1:")
    assert ":endpoint-config/" in account.output("ConfigRef")
    assert account.output("EndpointRef").endswith(":endpoint/ranker")
    assert account.output("EndpointName") == "ranker"
    sagemaker = account.client("sagemaker")
    name = sagemaker.describe_endpoint(EndpointName="ranker")["EndpointConfigName"]
    found = sagemaker.describe_endpoint_config(EndpointConfigName=name)["ProductionVariants"][0]
    config = serving("s3://any")["Resources"]["Config"]
    wanted = config["Properties"]["ProductionVariants"][0]
    del found["ModelName"], wanted["ModelName"]
    assert found == wanted


def test_an_update_makes_the_new_before_it_removes_the_old(
    account: Account, launcher: Launcher
) -> None:
    old, new = f"old {account.number}".encode(), f"new {account.number}".encode()
    account.deploy(serving(account.put_archive(old, "old")))
    count = len(account.events())
    account.deploy(serving(account.put_archive(new, "new")))
    ends = ("UPDATE_COMPLETE", "DELETE_COMPLETE")
    assert [event for event in account.events()[count:] if event[1] in ends] == [
        *((name, "UPDATE_COMPLETE") for name in ("Model", "Config", "Endpoint")),
        *((name, "DELETE_COMPLETE") for name in ("Config", "Model")),
        ("stack", "UPDATE_COMPLETE"),
    ]
    assert _ask(account)["archive"] == new.decode()
    assert launcher.serving(old) == []
    account.delete()
    assert launcher.serving(new) == []


def test_a_failed_update_leaves_what_was_there_serving_all_the_time(account: Account) -> None:
    account.deploy(serving(account.put_archive(b"good", "good")))
    broken = serving(account.put_archive(b"BROKEN", "broken"))
    before = account.inventory()
    account.deploy(broken, wait=False)
    answers = set()
    while account.status().endswith("_IN_PROGRESS"):
        answers.add(_ask(account)["archive"])
    assert answers <= {"good"}
    assert account.status() == "UPDATE_ROLLBACK_COMPLETE"
    assert _ask(account)["archive"] == "good"
    assert account.inventory() == before
    assert account.deploy(serving(account.put_archive(b"new", "new"))) == "UPDATE_COMPLETE"


def _two_variants(account: Account, weights: tuple[int, int]) -> None:
    template = serving(account.put_archive(b"a"))
    other = copy.deepcopy(template["Resources"]["Model"])
    other["Properties"]["PrimaryContainer"]["Environment"] = {"WHO": "second"}
    template["Resources"]["Second"] = other
    variants = template["Resources"]["Config"]["Properties"]["ProductionVariants"]
    variants.append(copy.deepcopy(variants[0]))
    variants[1] |= {"VariantName": "second", "ModelName": {"Fn::GetAtt": ["Second", "ModelName"]}}
    for variant, weight in zip(variants, weights, strict=True):
        variant["InitialVariantWeight"] = weight
    account.deploy(template)


def test_requests_go_to_the_target_variant_or_in_proportion_to_weights(account: Account) -> None:
    _two_variants(account, (1, 0))
    variables = {"WHO": "second", "SAGEMAKER_TFS_VERSION": "2.20"}
    assert _ask(account, TargetVariant="second")["variables"] == variables
    _two_variants(account, (3, 1))
    runtime = account.client("sagemaker-runtime")
    answers = [runtime.invoke_endpoint(EndpointName="ranker", Body=b"x") for _ in range(8)]
    found = [answer["InvokedProductionVariant"] for answer in answers]
    assert (found.count("primary"), found.count("second")) == (6, 2)
