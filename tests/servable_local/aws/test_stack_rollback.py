"""A deployment of CloudFormation that fails: what is taken back, what stays, and in which status.

Resources are of a type that fails on request, so that each step of a rollback can fail.
Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
"""

import contextlib
import json
from collections.abc import Callable
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
    """Return a case whose resource type has had no call and fails at none."""
    case.thing.calls.clear()
    case.thing.fails.clear()
    return Case(case.thing)


REFUSED = ResourceError("no")


def statuses(stack: Stack, logical_id: str = "stack") -> list[str]:
    return [e["ResourceStatus"] for e in stack.events if e["LogicalResourceId"] == logical_id]


def reasons(stack: Stack) -> list[str]:
    return [
        event["ResourceStatusReason"] for event in stack.events if event["ResourceStatusReason"]
    ]


# --- a creation that fails
def test_a_failed_creation_deletes_what_it_made(case: Case) -> None:
    case.thing.fails["create C-"] = REFUSED
    stack = case.deploy(
        {
            "A": thing(),
            "B": thing(Of={"Ref": "A"}),
            "C": thing(Of={"Fn::GetAtt": ["B", "Arn"]}),
        }
    )
    assert case.thing.calls[3:] == ["delete B-", "delete A-"]
    assert (stack.status, stack.resources) == ("ROLLBACK_COMPLETE", {})
    assert (stack.reason, reasons(stack)[-1]) == (
        None,
        "The following resource(s) failed to create: [C]. Rollback requested by user.",
    )

    case = renew(case)
    case.thing.fails["create A-"] = REFUSED
    stack = case.deploy({"A": thing(Half=True)})
    assert (case.thing.calls, stack.status) == (["create A-", "delete A-"], "ROLLBACK_COMPLETE")

    case = renew(case)
    case.thing.fails |= {"create C-": REFUSED, "delete A-": REFUSED}
    stack = case.deploy({"A": thing(), "B": thing(), "C": thing(Of={"Ref": "B"})})
    assert (stack.status, list(stack.resources)) == ("ROLLBACK_FAILED", ["A"])
    assert stack.reason == "The following resource(s) failed to delete: [A]. "

    case = renew(case)
    case.thing.fails["create B-"] = REFUSED
    stack = case.formation.register("stack")
    stack.disable_rollback = True
    case.deploy({"A": thing(), "B": thing(Of={"Ref": "A"})})
    assert (stack.status, list(stack.resources)) == ("CREATE_FAILED", ["A"])


def test_what_cannot_be_evaluated_takes_the_creation_back(case: Case) -> None:
    stack = case.deploy({"A": thing(), "B": thing(Of={"Fn::GetAtt": ["A", "Absent"]})})
    assert (stack.status, statuses(stack, "B")) == ("ROLLBACK_COMPLETE", ["CREATE_FAILED"])
    problem = "Requested attribute Absent does not exist in schema for Test::Thing"
    assert f"{problem}; the local AWS has: Arn" in reasons(stack)

    case = renew(case)
    output = {"Out": {"Value": {"Fn::GetAtt": ["A", "Absent"]}}}
    stack = case.deploy({"A": thing()}, Outputs=output)
    assert (stack.status, stack.outputs) == ("ROLLBACK_COMPLETE", [])


def test_a_type_that_is_not_emulated_fails_with_those_that_are(case: Case) -> None:
    stack = case.deploy({"A": thing("Test::Absent")})
    (reason,) = [
        e["ResourceStatusReason"] for e in stack.events if e["ResourceStatus"] == "CREATE_FAILED"
    ]
    assert reason.startswith(
        "Resource type Test::Absent is not emulated by the local AWS; it emulates AWS::"
    )
    assert "Test::Other, Test::Thing" in reason


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        ("Custom::S3AutoDeleteObjects", "remove auto_delete_objects, and empty the bucket"),
        ("Custom::AWS", "remove AwsCustomResource, and call its API yourself."),
    ],
)
def test_a_custom_resource_fails_with_advice(case: Case, kind: str, advice: str) -> None:
    stack = case.deploy({"A": thing(kind)})
    reason = f"Resource type {kind} is not emulated by the local AWS; {advice}"
    assert any(one.startswith(reason) for one in reasons(stack))
    assert stack.status == "ROLLBACK_COMPLETE"


def test_a_fault_of_the_local_aws_in_a_resource_is_named_as_such(case: Case) -> None:
    case.thing.fails["create A-"] = ZeroDivisionError("x")
    stack = case.deploy({"A": thing()})
    (event,) = [e for e in stack.events if e["ResourceStatus"] == "CREATE_FAILED"]
    assert event["ResourceStatusReason"] == (
        "Internal failure of the local AWS: ZeroDivisionError: x"
    )


# --- an update that fails


def deploy_both(case: Case) -> Stack:
    """A stack of A, which B refers to; its calls are forgotten."""
    stack = case.deploy({"A": thing(Size=1), "B": thing(Size=1, Of={"Ref": "A"})})
    case.thing.calls.clear()
    return stack


@pytest.fixture
def deployed(case: Case) -> Stack:
    return deploy_both(case)


BOTH = {"A": thing(Size=2), "B": thing(Size=2, Of={"Ref": "A"})}


def test_a_failed_update_is_taken_back(case: Case, deployed: Stack) -> None:
    case.thing.fails["update B- 1->2"] = REFUSED
    case.deploy(BOTH)
    assert case.thing.calls == [
        "update A- 1->2", "update B- 1->2", "update A- 2->1", "update B- 2->1",
    ]  # fmt: skip
    assert (deployed.status, [r.properties["Size"] for r in deployed.resources.values()]) == (
        "UPDATE_ROLLBACK_COMPLETE", [1, 1],
    )  # fmt: skip

    case = renew(case)
    deployed = deploy_both(case)
    case.thing.fails["create D-"] = REFUSED
    case.deploy({**BOTH, "C": thing(), "D": thing(Of={"Ref": "C"})})
    assert (case.thing.calls[-1], sorted(deployed.resources)) == ("delete C-", ["A", "B"])

    case = renew(case)
    deployed = deploy_both(case)
    case.thing.fails["update B- 1->2"] = REFUSED
    case.deploy({"A": thing(Size=1, Kind="new"), "B": thing(Size=2, Of={"Ref": "A"})})
    assert (deployed.status, deployed.resources["A"].physical_id) == (
        "UPDATE_ROLLBACK_COMPLETE",
        "A-",
    )
    assert case.thing.calls[-1] == "delete A-new"

    case = renew(case)
    deployed = deploy_both(case)
    case.thing.fails |= {"create D-": REFUSED, "delete C-": REFUSED}
    case.deploy({**BOTH, "C": thing(), "D": thing(Of={"Ref": "C"})})
    assert (deployed.status, sorted(deployed.resources)) == ("UPDATE_ROLLBACK_COMPLETE", ["A", "B"])

    case = renew(case)
    deployed = deploy_both(case)
    case.thing.fails["update A- 1->2"] = REFUSED
    case.deploy(BOTH)
    assert statuses(deployed)[-4:] == [
        "UPDATE_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE",
    ]
    case = renew(case)
    deployed = deploy_both(case)
    case.deploy({"A": thing(Size=1), "B": thing(Size=1, Of={"Fn::GetAtt": ["A", "Absent"]})})
    assert (deployed.status, statuses(deployed, "B")[-1]) == (
        "UPDATE_ROLLBACK_COMPLETE",
        "UPDATE_FAILED",
    )


def test_a_rollback_or_cleanup_may_fail(case: Case, deployed: Stack) -> None:
    case.thing.fails |= {"update B- 1->2": REFUSED, "update A- 2->1": REFUSED}
    case.deploy(BOTH)
    assert (deployed.status, deployed.reason) == (
        "UPDATE_ROLLBACK_FAILED",
        "The following resource(s) failed to update: [A].",
    )
    assert case.thing.calls[-1] == "update A- 2->1"

    case = renew(case)
    deployed = deploy_both(case)
    case.thing.fails["delete B-"] = REFUSED
    case.deploy({"A": thing(Size=1)})
    assert (deployed.status, list(deployed.resources)) == ("UPDATE_COMPLETE", ["A"])
    assert statuses(deployed, "B")[-1] == "DELETE_FAILED"


# --- an update that succeeds
def test_a_changed_resource_changes_what_refers_to_it(case: Case, deployed: Stack) -> None:
    case.deploy({"A": thing(Size=1), "B": thing("Test::Other", Size=1, Of={"Ref": "A"})})
    assert case.thing.calls == ["create B-", "delete B-"]
    assert (deployed.status, deployed.resources["B"].type) == ("UPDATE_COMPLETE", "Test::Other")

    case = renew(case)
    deployed = deploy_both(case)
    case.deploy({"A": thing(Size=1, Kind="new"), "B": thing(Size=1, Of={"Ref": "A"})})
    assert case.thing.calls == ["create A-new", "update B- 1->1", "delete A-"]
    assert deployed.resources["B"].properties["Of"] == "A-new"
    assert "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS" in statuses(deployed)

    case = renew(case)
    deployed = deploy_both(case)
    more = {
        "DeletionPolicy": "Retain",
        "UpdateReplacePolicy": "Retain",
        "Metadata": {"m": 1},
        "DependsOn": ["B"],
    }
    case.deploy(
        {"A": thing(more=more | {"DependsOn": []}, Size=1), "B": thing(Size=1, Of={"Ref": "A"})}
    )
    a = deployed.resources["A"]
    assert (case.thing.calls, a.deletion_policy, a.keep_on_replace, a.metadata) == (
        [], "Retain", True, {"m": 1},
    )  # fmt: skip
    case.delete(deployed)
    assert case.thing.calls == ["delete B-"]


@pytest.mark.parametrize(("policy", "deleted"), [("Retain", 0), ("Delete", 1)])
def test_a_replaced_resource_may_stay(case: Case, policy: str, deleted: int) -> None:
    case.deploy({"A": thing(more={"UpdateReplacePolicy": policy})})
    case.deploy({"A": thing(more={"UpdateReplacePolicy": policy}, Kind="new")})
    assert case.thing.calls.count("delete A-") == deleted


@pytest.mark.parametrize(
    ("named", "status"), [("fixed", "UPDATE_ROLLBACK_COMPLETE"), ("new", "UPDATE_COMPLETE")]
)
def test_a_fixed_name_is_not_replaced(case: Case, named: str, status: str) -> None:
    case.deploy({"A": thing(Name="fixed")})
    assert case.deploy({"A": thing(Name=named, Kind="new")}).status == status


# --- deletion
def test_a_deletion_names_what_is_left(case: Case, deployed: Stack) -> None:
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
    case = renew(case)
    deployed = deploy_both(case)
    case.delete(deployed, "A")
    assert (case.thing.calls, deployed.status) == (["delete B-"], "DELETE_COMPLETE")


REFUSED_MEANWHILE: list[Callable[[Case, Stack], Any]] = [
    lambda case, stack: case.formation.delete(stack),
    lambda case, stack: case.formation.deploy(stack, json.dumps({"Resources": BOTH}), {}),
]


@pytest.mark.parametrize("call", REFUSED_MEANWHILE)
def test_a_stack_in_progress_takes_no_other_operation(
    case: Case, deployed: Stack, call: Callable[[Case, Stack], Any]
) -> None:
    deployed.status = "UPDATE_IN_PROGRESS"
    with pytest.raises(ValidationError, match="is in UPDATE_IN_PROGRESS state and can not be"):
        call(case, deployed)


# --- names


@pytest.mark.parametrize(
    ("stack", "logical", "longest", "beginning"),
    [
        ("stack", "Topic", 64, "stack-Topic-"),
        ("s" * 60, "L" * 60, 64, "s" * 25 + "-" + "L" * 25 + "-"),
        ("stack", "L" * 60, 32, "stack-" + "L" * 13 + "-"),
        ("s" * 60, "L", 32, "s" * 17 + "-L-"),
    ],
)
def test_a_generated_name_fits(stack: str, logical: str, longest: int, beginning: str) -> None:
    names = [generate_physical_name(stack, logical, longest) for _ in range(2)]
    assert [name[: len(beginning)] for name in names] == [beginning] * 2
    assert [len(name) - len(beginning) for name in names] == [12, 12]
    assert names[0] != names[1]


def test_a_template_is_refused_or_leaves_out(case: Case) -> None:
    with pytest.raises(ValidationError, match="unresolved condition dependency Absent"):
        case.deploy({"A": thing(more={"Condition": "Absent"})})

    off = {"Off": {"Fn::Equals": ["1", "2"]}}
    resources = {"A": thing(more={"Condition": "Off"}), "B": thing(Of={"Ref": "A"})}
    with pytest.raises(ValidationError, match=r"Unresolved resource dependencies \[A\]"):
        case.deploy(resources, Conditions=off)

    conditions = {"Never": {"Fn::Equals": [{"Fn::FindInMap": ["Absent", "a", "b"]}, "c"]}}
    with pytest.raises(ValidationError, match="Absent"):
        case.deploy({"A": thing()}, Conditions=conditions)
    assert case.thing.calls == []

    # --- conditions, rules and references
    case = renew(case)
    conditions = {
        "Off": {"Fn::Equals": ["1", "2"]},
        "On": {"Fn::Not": [{"Condition": "Off"}]},
    }
    outputs = {
        "First": {"Value": "1", "Condition": "Off"},
        "Second": {"Value": {"Ref": "AWS::URLSuffix"}, "Condition": "On", "Description": "two"},
    }
    stack = case.deploy({"A": thing()}, Conditions=conditions, Outputs=outputs)
    assert stack.outputs == [
        {"OutputKey": "Second", "OutputValue": "amazonaws.com", "Description": "two"}
    ]
    for met, refused in [("1", True), ("2", False)]:
        case = renew(case)
        never = {"Fn::Equals": ["1", "2"]}
        rule = {"RuleCondition": {"Fn::Equals": ["1", met]}, "Assertions": [{"Assert": never}]}
        expected = pytest.raises(ValidationError, match="an assertion of a rule is false")
        with expected if refused else contextlib.nullcontext():
            case.deploy({"A": thing()}, Rules={"Check": rule})


# --- what is told of each step


def events(stack: Stack, logical_id: str) -> list[tuple[str, str | None, str | None]]:
    """(status, physical id, reason) of a resource's events, oldest first."""
    return [
        (e["ResourceStatus"], e.get("PhysicalResourceId"), e.get("ResourceStatusReason"))
        for e in stack.events
        if e["LogicalResourceId"] == logical_id
    ]


def test_events_and_plans_of_what_is_replaced_or_removed(case: Case) -> None:
    stack = case.deploy({"A": thing(Kind="old")})
    before = len(events(stack, "A"))
    case.deploy({"A": thing(Kind="new")})
    first, second, third, *removed = events(stack, "A")[before:]
    assert (first[:2], second[:2], third[:2]) == (
        ("UPDATE_IN_PROGRESS", "A-old"),
        ("UPDATE_IN_PROGRESS", "A-new"),
        ("UPDATE_COMPLETE", "A-new"),
    )
    assert (first[2] or "").startswith("Requested update requires the creation of a new physical")
    assert [one[:2] for one in removed] == [
        ("DELETE_IN_PROGRESS", "A-old"),
        ("DELETE_COMPLETE", "A-old"),
    ]

    case = renew(case)
    stack = case.deploy({"A": thing(more={"DeletionPolicy": "Retain"})})
    case.delete(stack)
    assert (statuses(stack, "A")[-1], case.thing.calls) == ("DELETE_SKIPPED", ["create A-"])

    case = renew(case)
    stack = case.deploy({"A": thing(), "B": thing()})
    blueprint = case.formation.bind(stack, json.dumps({"Resources": {"A": thing()}}), {})
    assert [change.describe()["ResourceChange"] for change in plan_changes(stack, blueprint)] == [
        {
            "Action": "Remove",
            "LogicalResourceId": "B",
            "PhysicalResourceId": "B-",
            "PolicyAction": "Delete",
            "ResourceType": "Test::Thing",
            "Scope": [],
            "Details": [],
        }
    ]


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
