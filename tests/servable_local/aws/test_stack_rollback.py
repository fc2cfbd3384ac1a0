"""A deployment of CloudFormation that fails: what is taken back, what stays, and in which status.

Resources are of a type that fails on request, so that each step of a rollback can fail.
Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
"""

import json
from typing import Any

import pytest

from servable_local.aws.cloudformation.changes import plan_changes
from servable_local.aws.cloudformation.operations import StackDeployment
from servable_local.aws.cloudformation.resource_calls import generate_physical_name
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.errors import ValidationError
from servable_local.aws.resources import TYPES
from servable_local.aws.resources.resource_type import ResourceError
from tests.servable_local.aws.formation_case import Case, Thing, thing


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    thing, other = Thing(), Thing()
    monkeypatch.setitem(TYPES, "Test::Thing", thing)
    monkeypatch.setitem(TYPES, "Test::Other", other)
    other.calls, other.fails = thing.calls, thing.fails
    return Case(thing)


def renew(case: Case) -> Case:
    """The case without a stack, whose resource type has had no call and fails at none."""
    case.thing.calls.clear()
    case.thing.fails.clear()
    case.formation = Case(case.thing).formation
    return case


REFUSED = ResourceError("no")


def statuses(stack: Stack, logical_id: str = "stack") -> list[str]:
    return [e["ResourceStatus"] for e in stack.events if e["LogicalResourceId"] == logical_id]


def reasons(stack: Stack) -> list[str]:
    return [
        event["ResourceStatusReason"] for event in stack.events if event["ResourceStatusReason"]
    ]


# --- a creation that fails
def test_a_failed_creation_deletes_what_it_made(case: Case) -> None:
    three = {"A": thing(), "B": thing(Of={"Ref": "A"}), "C": thing(Of={"Fn::GetAtt": ["B", "Arn"]})}
    case.thing.fails["create C-"] = REFUSED
    stack = case.deploy(three)
    assert case.thing.calls[3:] == ["delete B-", "delete A-"]
    assert (stack.status, stack.resources) == ("ROLLBACK_COMPLETE", {})
    assert (stack.reason, reasons(stack)[-1]) == (
        None,
        "The following resource(s) failed to create: [C]. Rollback requested by user.",
    )
    renew(case).thing.fails |= {"create C-": REFUSED, "delete A-": REFUSED}
    stack = case.deploy(three)
    assert (stack.status, list(stack.resources)) == ("ROLLBACK_FAILED", ["A"])
    assert stack.reason == "The following resource(s) failed to delete: [A]. "

    renew(case).thing.fails["create A-"] = REFUSED
    stack = case.deploy({"A": thing(Half=True)})
    assert (case.thing.calls, stack.status) == (["create A-", "delete A-"], "ROLLBACK_COMPLETE")

    renew(case).thing.fails["create C-"] = REFUSED
    stack = case.formation.register("stack")
    stack.disable_rollback = True
    case.deploy(three)
    assert (stack.status, list(stack.resources)) == ("CREATE_FAILED", ["A", "B"])


def test_what_cannot_be_evaluated_takes_the_creation_back(case: Case) -> None:
    absent = {"Fn::GetAtt": ["A", "Absent"]}
    stack = case.deploy({"A": thing(), "B": thing(Of=absent)})
    assert (stack.status, statuses(stack, "B")) == ("ROLLBACK_COMPLETE", ["CREATE_FAILED"])
    problem = "Requested attribute Absent does not exist in schema for Test::Thing"
    assert f"{problem}; the local AWS has: Arn" in reasons(stack)

    stack = renew(case).deploy({"A": thing()}, Outputs={"Out": {"Value": absent}})
    assert (stack.status, stack.outputs) == ("ROLLBACK_COMPLETE", [])


def test_what_the_local_aws_cannot_create_is_named(case: Case) -> None:
    for kind, *said in [
        ("Test::Absent", "; it emulates AWS::", "Test::Other, Test::Thing"),
        ("Custom::S3AutoDeleteObjects", "; remove auto_delete_objects, and empty the bucket"),
        ("Custom::AWS", "; remove AwsCustomResource, and call its API yourself."),
    ]:
        stack = renew(case).deploy({"A": thing(kind)})
        (reason,) = (one for one in reasons(stack) if one.startswith("Resource type"))
        assert reason.startswith(f"Resource type {kind} is not emulated by the local AWS{said[0]}")
        assert said[-1] in reason
        assert stack.status == "ROLLBACK_COMPLETE"

    renew(case).thing.fails["create A-"] = ZeroDivisionError("x")
    stack = case.deploy({"A": thing()})
    assert "Internal failure of the local AWS: ZeroDivisionError: x" in reasons(stack)


# --- an update that fails
def both(case: Case) -> tuple[Case, Stack]:
    """A case with a stack of A, which B refers to, and no call and no failure since."""
    stack = renew(case).deploy({"A": thing(Size=1), "B": thing(Size=1, Of={"Ref": "A"})})
    case.thing.calls.clear()
    return case, stack


BOTH = {"A": thing(Size=2), "B": thing(Size=2, Of={"Ref": "A"})}


def test_a_change_that_is_not_emulated_leaves_nothing_to_take_back(case: Case) -> None:
    case, stack = both(case)
    case.deploy({"A": thing(Size=2), "B": thing(Fixed=1, Of={"Ref": "A"})})
    assert case.thing.calls == ["update A- 1->2", "update A- 2->1"]
    assert "Test::Thing: changing Fixed is not emulated" in reasons(stack)
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"


def test_a_failed_update_is_taken_back(case: Case) -> None:
    case, deployed = both(case)
    case.thing.fails["update B- 1->2"] = REFUSED
    case.deploy(BOTH)
    assert case.thing.calls == [
        "update A- 1->2", "update B- 1->2", "update A- 2->1", "update B- 2->1",
    ]  # fmt: skip
    assert [one.properties["Size"] for one in deployed.resources.values()] == [1, 1]
    assert statuses(deployed)[-4:] == [
        "UPDATE_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE",
    ]

    case, deployed = both(case)
    case.thing.fails |= {"create D-": REFUSED, "delete C-": REFUSED}
    case.deploy({**BOTH, "C": thing(), "D": thing(Of={"Ref": "C"})})
    assert (case.thing.calls[-1], sorted(deployed.resources)) == ("delete C-", ["A", "B"])
    assert deployed.status == "UPDATE_ROLLBACK_COMPLETE"

    case, deployed = both(case)
    case.thing.fails["update B- 1->2"] = REFUSED
    case.deploy({"A": thing(Size=1, Kind="new"), "B": thing(Size=2, Of={"Ref": "A"})})
    assert (deployed.status, deployed.resources["A"].physical_id) == (
        "UPDATE_ROLLBACK_COMPLETE",
        "A-",
    )
    assert case.thing.calls[-1] == "delete A-new"

    case, deployed = both(case)
    case.deploy({"A": thing(Size=1), "B": thing(Size=1, Of={"Fn::GetAtt": ["A", "Absent"]})})
    assert (deployed.status, statuses(deployed, "B")[-1]) == (
        "UPDATE_ROLLBACK_COMPLETE",
        "UPDATE_FAILED",
    )


def test_a_rollback_or_cleanup_may_fail(case: Case) -> None:
    case, deployed = both(case)
    case.thing.fails |= {"update B- 1->2": REFUSED, "update A- 2->1": REFUSED}
    case.deploy(BOTH)
    assert (deployed.status, deployed.reason) == (
        "UPDATE_ROLLBACK_FAILED",
        "The following resource(s) failed to update: [A].",
    )
    assert case.thing.calls[-1] == "update A- 2->1"

    case, deployed = both(case)
    case.thing.fails["delete B-"] = REFUSED
    case.deploy({"A": thing(Size=1)})
    assert (deployed.status, list(deployed.resources)) == ("UPDATE_COMPLETE", ["A"])
    assert statuses(deployed, "B")[-1] == "DELETE_FAILED"


# --- an update that succeeds
def test_a_changed_resource_changes_what_refers_to_it(case: Case) -> None:
    case, deployed = both(case)
    case.deploy({"A": thing(Size=1), "B": thing("Test::Other", Size=1, Of={"Ref": "A"})})
    assert case.thing.calls == ["create B-", "delete B-"]
    assert (deployed.status, deployed.resources["B"].type) == ("UPDATE_COMPLETE", "Test::Other")

    case, deployed = both(case)
    case.deploy({"A": thing(Size=1, Kind="new"), "B": thing(Size=1, Of={"Ref": "A"})})
    assert case.thing.calls == ["create A-new", "update B- 1->1", "delete A-"]
    assert deployed.resources["B"].properties["Of"] == "A-new"
    assert "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS" in statuses(deployed)

    case, deployed = both(case)
    kept = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Metadata": {"m": 1}}
    case.deploy(
        {"A": thing(more=kept | {"DependsOn": []}, Size=1), "B": thing(Size=1, Of={"Ref": "A"})}
    )
    a = deployed.resources["A"]
    assert (case.thing.calls, a.deletion_policy, a.keep_on_replace, a.metadata) == (
        [], "Retain", True, {"m": 1},
    )  # fmt: skip
    case.delete(deployed)
    assert case.thing.calls == ["delete B-"]


def test_a_replaced_resource_may_stay_and_has_another_name(case: Case) -> None:
    for policy, deleted in [("Retain", 0), ("Delete", 1)]:
        renew(case).deploy({"A": thing(more={"UpdateReplacePolicy": policy})})
        case.deploy({"A": thing(more={"UpdateReplacePolicy": policy}, Kind="new")})
        assert case.thing.calls.count("delete A-") == deleted
    for name, status in [("fixed", "UPDATE_ROLLBACK_COMPLETE"), ("new", "UPDATE_COMPLETE")]:
        renew(case).deploy({"A": thing(Name="fixed")})
        assert case.deploy({"A": thing(Name=name, Kind="new")}).status == status


# --- deletion
def test_a_deletion_names_what_is_left(case: Case) -> None:
    case, deployed = both(case)
    case.thing.fails["delete A-"] = REFUSED
    case.delete(deployed)
    assert (deployed.status, deployed.reason, list(deployed.resources)) == (
        "DELETE_FAILED",
        "The following resource(s) failed to delete: [A]. ",
        ["A"],
    )
    case.thing.fails.clear()
    assert case.delete(deployed).status == "DELETE_COMPLETE"
    assert deployed.deleted is not None

    case, deployed = both(case)
    case.delete(deployed, "A")
    assert (case.thing.calls, deployed.status) == (["delete B-"], "DELETE_COMPLETE")


def test_a_stack_in_progress_takes_no_other_operation(case: Case) -> None:
    case, deployed = both(case)
    deployed.status = "UPDATE_IN_PROGRESS"
    refused = "is in UPDATE_IN_PROGRESS state and can not be"
    with pytest.raises(ValidationError, match=refused):
        case.formation.delete(deployed)
    with pytest.raises(ValidationError, match=refused):
        case.formation.deploy(deployed, json.dumps({"Resources": BOTH}), {})


# --- names
def test_a_generated_name_fits() -> None:
    for stack, logical, longest, beginning in [
        ("stack", "Topic", 64, "stack-Topic-"),
        ("s" * 60, "L" * 60, 64, "s" * 25 + "-" + "L" * 25 + "-"),
        ("stack", "L" * 60, 32, "stack-" + "L" * 13 + "-"),
        ("s" * 60, "L", 32, "s" * 17 + "-L-"),
    ]:
        names = [generate_physical_name(stack, logical, longest) for _ in range(2)]
        assert [name[: len(beginning)] for name in names] == [beginning] * 2
        assert [len(name) - len(beginning) for name in names] == [12, 12]
        assert names[0] != names[1]


def test_a_template_is_refused_or_leaves_out(case: Case) -> None:
    off = {"Off": {"Fn::Equals": ["1", "2"]}}
    never = {"Never": {"Fn::Equals": [{"Fn::FindInMap": ["Absent", "a", "b"]}, "c"]}}
    of_nothing = {"A": thing(more={"Condition": "Off"}), "B": thing(Of={"Ref": "A"})}
    refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"A": thing(more={"Condition": "Absent"})}, {}, "unresolved condition dependency Absent"),
        (of_nothing, off, r"Unresolved resource dependencies \[A\]"),
        ({"A": thing()}, never, "Absent"),
    ]
    for resources, conditions, problem in refused:
        with pytest.raises(ValidationError, match=problem):
            case.deploy(resources, Conditions=conditions)
    assert case.thing.calls == []

    on = {"On": {"Fn::Not": [{"Condition": "Off"}]}}
    outputs = {
        "First": {"Value": "1", "Condition": "Off"},
        "Second": {"Value": {"Ref": "AWS::URLSuffix"}, "Condition": "On", "Description": "two"},
    }
    stack = renew(case).deploy({"A": thing()}, Conditions=off | on, Outputs=outputs)
    assert stack.outputs == [
        {"OutputKey": "Second", "OutputValue": "amazonaws.com", "Description": "two"}
    ]

    rule = {"Assertions": [{"Assert": {"Fn::Equals": ["1", "2"]}}]}
    met, unmet = ({"Check": rule | {"RuleCondition": {"Fn::Equals": ["1", one]}}} for one in "12")
    with pytest.raises(ValidationError, match="an assertion of a rule is false"):
        renew(case).deploy({"A": thing()}, Rules=met)
    assert renew(case).deploy({"A": thing()}, Rules=unmet).status == "CREATE_COMPLETE"


# --- what is told of each step
def test_events_and_plans_of_what_is_replaced_or_removed(case: Case) -> None:
    stack = case.deploy({"A": thing(Kind="old")})
    before = len(stack.events)
    case.deploy({"A": thing(Kind="new")})
    of_a = [one for one in stack.events[before:] if one["LogicalResourceId"] == "A"]
    assert [(one["ResourceStatus"], one["PhysicalResourceId"]) for one in of_a] == [
        ("UPDATE_IN_PROGRESS", "A-old"),
        ("UPDATE_IN_PROGRESS", "A-new"),
        ("UPDATE_COMPLETE", "A-new"),
        ("DELETE_IN_PROGRESS", "A-old"),
        ("DELETE_COMPLETE", "A-old"),
    ]
    said = "Requested update requires the creation of a new physical"
    assert of_a[0]["ResourceStatusReason"].startswith(said)

    stack = renew(case).deploy({"A": thing(more={"DeletionPolicy": "Retain"})})
    case.delete(stack)
    assert (statuses(stack, "A")[-1], case.thing.calls) == ("DELETE_SKIPPED", ["create A-"])

    stack = renew(case).deploy({"A": thing(), "B": thing()})
    blueprint = case.formation.bind(stack, json.dumps({"Resources": {"A": thing()}}), {})
    (change,) = plan_changes(stack, blueprint)
    assert change.describe()["ResourceChange"] == {
        "Action": "Remove",
        "LogicalResourceId": "B",
        "PhysicalResourceId": "B-",
        "PolicyAction": "Delete",
        "ResourceType": "Test::Thing",
        "Scope": [],
        "Details": [],
    }


def test_a_fault_of_the_local_aws_in_a_deployment_is_printed_and_named(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*given: Any, **more: Any) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(StackDeployment, "run", fails)
    stack = case.deploy({"A": thing()})
    assert (stack.status, stack.reason) == (
        "CREATE_FAILED",
        "Internal failure of the local AWS: ZeroDivisionError('of ours')",
    )
    assert "ZeroDivisionError: of ours" in capsys.readouterr().err
