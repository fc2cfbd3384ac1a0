"""A deployment of CloudFormation that fails: what is taken back, what stays, and in which status.

Resources are of a type that fails on request, so that each step of a rollback can fail. No server runs.
Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/view-stack-events.html
"""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from servable_local.aws.cloudformation import stacks
from servable_local.aws.cloudformation.changes import plan_changes
from servable_local.aws.cloudformation.operations import CloudFormation, StackDeployment
from servable_local.aws.cloudformation.resource_calls import generate_physical_name
from servable_local.aws.cloudformation.stacks import Stack
from servable_local.aws.errors import ValidationError
from servable_local.aws.resources import TYPES
from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
)


class Thing(ResourceType):
    """Resource whose calls are remembered; a call that `fails` names raises."""

    create_only, unchangeable = frozenset({"Kind"}), frozenset({"Fixed"})
    name_property = "Name"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.fails: dict[str, Exception] = {}

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if what in self.fails:
            raise self.fails[what]

    def create(self, properties: Properties, logical: Logical) -> Physical:
        physical = f"{logical.logical_id}-{properties.get('Kind', '')}"
        if properties.get("Half"):
            logical.exists(physical)
        self._call(f"create {physical}")
        return Physical(physical, {"Arn": f"arn:{physical}"})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        self._call(f"update {physical} {old.get('Size')}->{new.get('Size')}")
        return Physical(physical, {"Arn": f"arn:{physical}"})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        self._call(f"delete {physical}")


def thing(kind: str = "Test::Thing", more: dict[str, Any] | None = None, **properties: Any) -> Any:
    return {"Type": kind, "Properties": properties, **(more or {})}


class Case:
    """Stacks of one account, and the type Test::Thing of their resources."""

    def __init__(self, thing: Thing) -> None:
        self.thing, self.calls, self.fails = thing, thing.calls, thing.fails
        self.renew()

    def renew(self, *fails: str) -> "Case":
        """The case without a stack and without a call, in which these calls fail."""
        aws: Any = SimpleNamespace(account="123456789012", region="us-east-1")
        self.formation = CloudFormation(aws)
        return self._begin(*fails)

    def _begin(self, *fails: str) -> "Case":
        self.calls.clear()
        self.fails.clear()
        self.fails.update(dict.fromkeys(fails, ResourceError("no")))
        return self

    def both(self, *fails: str) -> Stack:
        """A stack of A, which B refers to; no call since, and these are the ones that fail."""
        stack = self.renew().deploy({"A": thing(Size=1), "B": thing(Size=1, Of={"Ref": "A"})})
        self._begin(*fails)
        return stack

    def deploy(self, resources: dict[str, Any], name: str = "stack", **more: Any) -> Stack:
        stack = self.formation.find_stack(name) or self.formation.register(name)
        self.formation.deploy(stack, json.dumps({"Resources": resources, **more}), {})
        return self.settled(stack)

    def delete(self, stack: Stack, *retained: str) -> Stack:
        self.formation.delete(stack, frozenset(retained))
        return self.settled(stack)

    @staticmethod
    def settled(stack: Stack) -> Stack:
        deadline = time.monotonic() + 20
        while stack.is_in_progress and time.monotonic() < deadline:
            time.sleep(0.001)
        return stack


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    thing, other = Thing(), Thing()
    monkeypatch.setitem(TYPES, "Test::Thing", thing)
    monkeypatch.setitem(TYPES, "Test::Other", other)
    other.calls, other.fails = thing.calls, thing.fails
    return Case(thing)


def statuses(stack: Stack, logical_id: str = "stack") -> list[str]:
    return [e["ResourceStatus"] for e in stack.events if e["LogicalResourceId"] == logical_id]


def failed(verb: str, name: str) -> str:
    return f"The following resource(s) failed to {verb}: [{name}]."


def reasons(stack: Stack) -> list[str]:
    return [one["ResourceStatusReason"] for one in stack.events if one["ResourceStatusReason"]]


# --- a creation that fails
def test_a_failed_creation_deletes_what_it_made(case: Case) -> None:
    three = {"A": thing(), "B": thing(Of={"Ref": "A"}), "C": thing(Of={"Fn::GetAtt": ["B", "Arn"]})}
    stack = case.renew("create C-").deploy(three)
    assert case.calls[3:] == ["delete B-", "delete A-"]
    assert (stack.status, stack.resources) == ("ROLLBACK_COMPLETE", {})
    said = f"{failed('create', 'C')} Rollback requested by user."
    assert (stack.reason, reasons(stack)[-1]) == (None, said)
    stack = case.renew("create C-", "delete A-").deploy(three)
    assert (stack.status, list(stack.resources)) == ("ROLLBACK_FAILED", ["A"])
    assert stack.reason == f"{failed('delete', 'A')} "

    stack = case.renew("create A-").deploy({"A": thing(Half=True)})
    assert (case.calls, stack.status) == (["create A-", "delete A-"], "ROLLBACK_COMPLETE")

    stack = case.renew("create C-").formation.register("stack")
    stack.disable_rollback = True
    case.deploy(three)
    assert (stack.status, list(stack.resources)) == ("CREATE_FAILED", ["A", "B"])


def test_a_rollback_keeps_what_is_retained(case: Case) -> None:
    """https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-deletionpolicy.html"""
    policies = ("Retain", "RetainExceptOnCreate", "Delete")
    things = {each: thing(more={"DeletionPolicy": each}) for each in policies}
    case.renew("create No-").deploy({**things, "No": thing(more={"DependsOn": [*policies]})})
    assert case.calls[4:] == ["delete Delete-", "delete RetainExceptOnCreate-"]


def test_what_cannot_be_evaluated_takes_the_creation_back(case: Case) -> None:
    absent = {"Fn::GetAtt": ["A", "Absent"]}
    stack = case.deploy({"A": thing(), "B": thing(Of=absent)})
    assert (stack.status, statuses(stack, "B")) == ("ROLLBACK_COMPLETE", ["CREATE_FAILED"])
    problem = "Requested attribute Absent does not exist in schema for Test::Thing"
    assert f"{problem}; the local AWS has: Arn" in reasons(stack)

    stack = case.renew().deploy({"A": thing()}, Outputs={"Out": {"Value": absent}})
    assert (stack.status, stack.outputs) == ("ROLLBACK_COMPLETE", [])


def test_what_the_local_aws_cannot_create_is_named(case: Case) -> None:
    for kind, *said in [
        ("Test::Absent", "; it emulates AWS::", "Test::Other, Test::Thing"),
        ("Custom::S3AutoDeleteObjects", "; remove auto_delete_objects, and empty the bucket"),
        ("Custom::AWS", "; remove AwsCustomResource, and call its API yourself."),
    ]:
        stack = case.renew().deploy({"A": thing(kind)})
        (reason,) = (one for one in reasons(stack) if one.startswith("Resource type"))
        assert reason.startswith(f"Resource type {kind} is not emulated by the local AWS{said[0]}")
        assert said[-1] in reason
        assert stack.status == "ROLLBACK_COMPLETE"

    case.renew().fails["create A-"] = ZeroDivisionError("x")
    stack = case.deploy({"A": thing()})
    assert "Internal failure of the local AWS: ZeroDivisionError: x" in reasons(stack)


# --- an update that fails
BOTH = {"A": thing(Size=2), "B": thing(Size=2, Of={"Ref": "A"})}


def test_a_change_that_is_not_emulated_leaves_nothing_to_take_back(case: Case) -> None:
    stack = case.both()
    case.deploy({"A": thing(Size=2), "B": thing(Fixed=1, Of={"Ref": "A"})})
    assert case.calls == ["update A- 1->2", "update A- 2->1"]
    assert "Test::Thing: changing Fixed is not emulated" in reasons(stack)
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"


def test_a_failed_update_is_taken_back(case: Case) -> None:
    deployed = case.both("update B- 1->2")
    case.deploy(BOTH)
    assert case.calls == [
        "update A- 1->2", "update B- 1->2", "update A- 2->1", "update B- 2->1",
    ]  # fmt: skip
    assert [one.properties["Size"] for one in deployed.resources.values()] == [1, 1]
    assert statuses(deployed)[-4:] == [
        "UPDATE_IN_PROGRESS",
        "UPDATE_ROLLBACK_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS",
        "UPDATE_ROLLBACK_COMPLETE",
    ]

    deployed = case.both("create D-", "delete C-")
    case.deploy({**BOTH, "C": thing(), "D": thing(Of={"Ref": "C"})})
    assert (case.calls[-1], sorted(deployed.resources)) == ("delete C-", ["A", "B"])
    assert deployed.status == "UPDATE_ROLLBACK_COMPLETE"

    deployed = case.both("update B- 1->2")
    case.deploy({"A": thing(Size=1, Kind="new"), "B": thing(Size=2, Of={"Ref": "A"})})
    rolled_back = "UPDATE_ROLLBACK_COMPLETE"
    assert (deployed.status, deployed.resources["A"].physical_id) == (rolled_back, "A-")
    assert case.calls[-1] == "delete A-new"

    deployed = case.both()
    case.deploy({"A": thing(Size=1), "B": thing(Size=1, Of={"Fn::GetAtt": ["A", "Absent"]})})
    assert (deployed.status, statuses(deployed, "B")[-1]) == (rolled_back, "UPDATE_FAILED")


def test_a_rollback_or_cleanup_may_fail(case: Case) -> None:
    deployed = case.both("update B- 1->2", "update A- 2->1")
    case.deploy(BOTH)
    found = deployed.status, deployed.reason
    assert found == ("UPDATE_ROLLBACK_FAILED", failed("update", "A"))
    assert case.calls[-1] == "update A- 2->1"

    deployed = case.both("delete B-")
    case.deploy({"A": thing(Size=1)})
    assert (deployed.status, list(deployed.resources)) == ("UPDATE_COMPLETE", ["A"])
    assert statuses(deployed, "B")[-1] == "DELETE_FAILED"


# --- an update that succeeds
def test_what_depends_is_made_later_and_what_leaves_the_template_goes(case: Case) -> None:
    stack = case.deploy({"First": thing(more={"DependsOn": "Second"}), "Second": thing()})
    assert case.calls == ["create Second-", "create First-"]
    assert (stack.events[-1]["LogicalResourceId"], stack.status) == ("stack", "CREATE_COMPLETE")
    case.deploy({"Second": thing()})
    assert (case.calls[2:], [*stack.resources]) == (["delete First-"], ["Second"])


def test_a_changed_resource_changes_what_refers_to_it(case: Case) -> None:
    deployed = case.both()
    case.deploy({"A": thing(Size=1), "B": thing("Test::Other", Size=1, Of={"Ref": "A"})})
    assert case.calls == ["create B-", "delete B-"]
    assert (deployed.status, deployed.resources["B"].type) == ("UPDATE_COMPLETE", "Test::Other")

    deployed = case.both()
    case.deploy({"A": thing(Size=1, Kind="new"), "B": thing(Size=1, Of={"Ref": "A"})})
    assert case.calls == ["create A-new", "update B- 1->1", "delete A-"]
    assert deployed.resources["B"].properties["Of"] == "A-new"
    assert "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS" in statuses(deployed)

    deployed = case.both()
    kept = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Metadata": {"m": 1}}
    kept_a = thing(more=kept, Size=1)
    case.deploy({"A": kept_a, "B": thing(Size=1, Of={"Ref": "A"})})
    a = deployed.resources["A"]
    assert (case.calls, a.deletion_policy, a.keep_on_replace) == ([], "Retain", True)
    case.delete(deployed)
    assert case.calls == ["delete B-"]


def test_a_replaced_resource_may_stay_and_has_another_name(case: Case) -> None:
    for policy, deleted in [("Retain", 0), ("Delete", 1)]:
        case.renew().deploy({"A": thing(more={"UpdateReplacePolicy": policy})})
        case.deploy({"A": thing(more={"UpdateReplacePolicy": policy}, Kind="new")})
        assert case.calls.count("delete A-") == deleted
    for name, status in [("fixed", "UPDATE_ROLLBACK_COMPLETE"), ("new", "UPDATE_COMPLETE")]:
        case.renew().deploy({"A": thing(Name="fixed")})
        stack = case.deploy({"A": thing(Name=name, Kind="new")})
        refused = any("a custom-named resource requires" in one for one in reasons(stack))
        assert (stack.status, refused) == (status, name == "fixed")


# --- deletion
def test_a_deletion_names_what_is_left(case: Case) -> None:
    deployed = case.both("delete A-")
    case.delete(deployed)
    found = deployed.status, deployed.reason, list(deployed.resources)
    assert found == ("DELETE_FAILED", f"{failed('delete', 'A')} ", ["A"])
    case.fails.clear()
    assert case.delete(deployed).status == "DELETE_COMPLETE"
    assert deployed.deleted is not None

    deployed = case.both()
    case.delete(deployed, "A")
    assert (case.calls, deployed.status) == (["delete B-"], "DELETE_COMPLETE")


def test_a_stack_in_progress_takes_no_other_operation(case: Case) -> None:
    deployed = case.both()
    deployed.status = "UPDATE_IN_PROGRESS"
    again: list[Callable[[], Stack]] = [lambda: case.delete(deployed), lambda: case.deploy(BOTH)]
    for call in again:
        with pytest.raises(ValidationError, match="in UPDATE_IN_PROGRESS state and can not be"):
            call()


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
    circle = {name: thing(more={"DependsOn": other}) for name, other in ("AB", "BA")}
    refused: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        (circle, {}, r"Circular dependency between resources: \[A, B\]"),
        ({"A": thing(Of={"Ref": "Nobody"})}, {}, r"Unresolved resource dependencies \[Nobody\]"),
        ({"A": thing(more={"Condition": "Absent"})}, {}, "unresolved condition dependency Absent"),
        (of_nothing, off, r"Unresolved resource dependencies \[A\]"),
        ({"A": thing()}, never, "Absent"),
    ]
    for resources, conditions, problem in refused:
        with pytest.raises(ValidationError, match=problem):
            case.deploy(resources, Conditions=conditions)
    assert case.calls == []

    on = {"On": {"Fn::Not": [{"Condition": "Off"}]}}
    outputs = {
        "First": {"Value": "1", "Condition": "Off"},
        "Second": {"Value": {"Ref": "AWS::URLSuffix"}, "Condition": "On", "Description": "two"},
    }
    chosen = {"Fn::If": ["Off", {"Ref": "B"}, "name"]}
    one = {"A": thing(Of=chosen), "B": thing(more={"Condition": "Off"})}
    stack = case.renew().deploy(one, Conditions=off | on, Outputs=outputs)
    assert (case.calls, [*stack.resources]) == (["create A-"], ["A"])
    second = {"OutputKey": "Second", "OutputValue": "amazonaws.com", "Description": "two"}
    assert stack.outputs == [second]

    false = {"Assert": {"Fn::Equals": ["1", "2"]}}
    rule = {"Assertions": [false]}
    met, unmet = ({"Check": rule | {"RuleCondition": {"Fn::Equals": ["1", one]}}} for one in "12")
    described = {"Check": {"Assertions": [false | {"AssertDescription": "too old"}]}}
    for rules, problem in ((met, "an assertion of a rule is false"), (described, "too old")):
        with pytest.raises(ValidationError, match=problem):
            case.renew().deploy({"A": thing()}, Rules=rules)
    assert case.renew().deploy({"A": thing()}, Rules=unmet).status == "CREATE_COMPLETE"


# --- what is told of each step


def test_events_and_plans_of_what_is_replaced_or_removed(case: Case) -> None:
    stack = case.deploy({"A": thing(Kind="old")})
    before = len(stack.events)
    case.deploy({"A": thing(Kind="new")})
    of_a = [one for one in stack.events[before:] if one["LogicalResourceId"] == "A"]
    assert [f"{one['ResourceStatus']} {one['PhysicalResourceId']}" for one in of_a] == [
        "UPDATE_IN_PROGRESS A-old", "UPDATE_IN_PROGRESS A-new", "UPDATE_COMPLETE A-new",
        "DELETE_IN_PROGRESS A-old", "DELETE_COMPLETE A-old",
    ]  # fmt: skip
    said = "Requested update requires the creation of a new physical"
    assert of_a[0]["ResourceStatusReason"].startswith(said)

    stack = case.renew().deploy({"A": thing(more={"DeletionPolicy": "Retain"})})
    case.delete(stack)
    assert (statuses(stack, "A")[-1], case.calls) == ("DELETE_SKIPPED", ["create A-"])

    stack = case.renew().deploy({"A": thing(), "B": thing()})
    blueprint = case.formation.bind(stack, json.dumps({"Resources": {"A": thing()}}), {})
    (change,) = plan_changes(stack, blueprint)
    assert change.describe()["ResourceChange"] == {
        "Action": "Remove", "LogicalResourceId": "B", "PhysicalResourceId": "B-",
        "PolicyAction": "Delete", "Replacement": None, "ResourceType": "Test::Thing",
        "Scope": [], "Details": [],
    }  # fmt: skip


def test_a_fault_of_the_local_aws_in_a_deployment_is_printed_and_named(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*given: Any, **more: Any) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr(StackDeployment, "run", fails)
    stack = case.deploy({"A": thing()})
    problem = "Internal failure of the local AWS: ZeroDivisionError('of ours')"
    assert (stack.status, stack.reason) == ("CREATE_FAILED", problem)
    assert "ZeroDivisionError: of ours" in capsys.readouterr().err


def test_events_of_one_moment_are_a_millisecond_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime(2026, 11, 23, tzinfo=UTC)
    monkeypatch.setattr(stacks, "utc_now", lambda: moment)
    stack = Stack("arn", "prod", "111111111111", "us-east-1", "CREATE_IN_PROGRESS")
    for status in ("CREATE_IN_PROGRESS", "CREATE_COMPLETE"):
        stack.set_status(status)
    times = [event["Timestamp"] for event in stack.events]
    assert times == [moment, moment + timedelta(milliseconds=1)]
