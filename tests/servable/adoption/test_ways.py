"""The steps of the ways to take an endpoint over, as they follow from what is live."""

from typing import Any

import pytest

from servable.adoption.live_picture import LivePicture
from servable.adoption.ways import WAYS, NewOwner, import_files, take_over
from tests.servable.adoption.pictures import alarm, picture, target, tracking


def steps(way: str, live: LivePicture) -> str:
    name = "ranker-2" if way == "beside" else "ranker"
    owner = NewOwner(environment="prod", endpoint_name=name, stack="prod-endpoint")
    taken = take_over(way, live, owner)
    return "\n".join(f"{step.why}: {step.command}" for step in taken.steps)


@pytest.mark.parametrize("way", WAYS)
def test_a_way_needs_its_own_name_of_the_endpoint(way: str) -> None:
    name = "RANKER" if way == "beside" else "ranker-2"
    owner = NewOwner(environment="prod", endpoint_name=name, stack="prod-endpoint")
    with pytest.raises(ValueError, match=f"--way {way} needs"):
        take_over(way, picture(), owner)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_says_what_it_costs_and_how_to_go_back(way: str) -> None:
    name = "ranker-2" if way == "beside" else "ranker"
    owner = NewOwner(environment="prod", endpoint_name=name, stack="prod-endpoint")
    taken = take_over(way, picture(), owner)
    assert all((taken.downtime, taken.cost, taken.rollback))


def test_scaling_is_let_go_after_an_import_and_before_the_deploy() -> None:
    live = picture(targets=[target()], policies=[tracking()])
    text = steps("import", live)
    places = [text.index(each) for each in ("execute-change-set", "deregister", "cdk deploy")]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("way", "deleted"), [("beside", True), ("import", False), ("delete", False)]
)
def test_an_alarm_that_no_key_makes_stays_where_the_endpoint_keeps_its_name(
    way: str, deleted: bool
) -> None:
    live = picture(alarms=[alarm("Invocations", "Sum", 9.0), alarm("ModelLatency", "p99", 9.0)])
    text = steps(way, live)
    assert ("ModelLatency" in text, " Invocations " in text.partition("delete-alarms")[2]) == (
        True,
        deleted,
    )


@pytest.mark.parametrize("way", ["import", "delete"])
def test_an_endpoint_of_another_stack_is_let_go_there_first(way: str) -> None:
    live = picture(tags={"aws:cloudformation:stack-name": "old"})
    assert "a resource of stack old" in steps(way, live).partition("\n")[0]


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        ({"endpoint": {"ProductionVariants": [
            {"VariantName": "AllTraffic", "CurrentInstanceCount": 3}]}}, "3 x ml.c5.xlarge"),
        ({}, "? x ml.c5.xlarge"),
    ],
)  # fmt: skip
def test_the_cost_beside_is_the_fleet_that_runs(more: dict[str, Any], shown: str) -> None:
    owner = NewOwner(environment="prod", endpoint_name="ranker-2", stack="prod-endpoint")
    assert shown in take_over("beside", picture(**more), owner).cost


def test_logs_that_are_imported_outlive_a_stack_that_is_deleted() -> None:
    name = "/aws/sagemaker/Endpoints/ranker"
    logs = {"Type": "AWS::Logs::LogGroup", "Properties": {"LogGroupName": name}}
    live = picture(log_group={"logGroupName": name, "retentionInDays": 60})
    template, _ = import_files(live, {"Resources": {}}, {"Resources": {"Logs": logs}})
    assert template["Resources"]["Logs"]["DeletionPolicy"] == "Retain"
