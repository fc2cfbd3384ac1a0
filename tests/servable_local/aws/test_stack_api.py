"""CloudFormation's API: stacks, templates, parameters, tags, exports, change sets, and refusals."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.local_account import Account


def topics(*names: str, output: str | None = None, **more: Any) -> dict[str, Any]:
    """Topics, and with `output` an export of that name."""
    template = {
        "Description": "topics",
        "Parameters": {
            "Display": {"Type": "String", "Default": "first", "Description": "shown"},
            "Secret": {"Type": "String", "Default": "s", "NoEcho": True},
        },
        "Resources": {
            name: {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": {"Ref": "Display"}}}
            for name in names
        },
        **more,
    }
    if output is not None:
        export = {"Value": {"Ref": names[0]}, "Export": {"Name": output}}
        template["Outputs"] = {"Out": export}
    return template


def importing(name: str) -> dict[str, Any]:
    properties = {"DisplayName": {"Fn::ImportValue": name}}
    return {"Resources": {"Other": {"Type": "AWS::SNS::Topic", "Properties": properties}}}


@pytest.fixture
def cfn(account: Account) -> Any:
    return account.client("cloudformation")


def refused(call: Callable[..., Any], **given: Any) -> tuple[str, str]:
    with pytest.raises(ClientError) as raised:
        call(**given)
    error = raised.value.response["Error"]
    return error["Code"], error["Message"]


def stack(cfn: Any, name: str = "stack") -> dict[str, Any]:
    return dict(cfn.describe_stacks(StackName=name)["Stacks"][0])


def test_a_deleted_stack_is_found_by_its_id_alone(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    number = stack(cfn)["StackId"]
    account.delete()
    assert stack(cfn, number)["StackStatus"] == "DELETE_COMPLETE"
    assert cfn.describe_stacks()["Stacks"] == []
    assert refused(cfn.describe_stacks, StackName="stack") == (
        "ValidationError", "Stack with id stack does not exist",
    )  # fmt: skip

    account = account.another()
    cfn = account.client("cloudformation")
    cfn.delete_stack(StackName="absent")
    account.deploy(topics("A"))
    number = stack(cfn)["StackId"]
    account.delete()
    cfn.delete_stack(StackName=number)
    assert stack(cfn, number)["StackStatus"] == "DELETE_COMPLETE"


def test_stacks_are_listed_by_their_status(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"), "a")
    account.deploy(topics("B"), "b")
    account.delete("b")

    def names(*statuses: str) -> list[str]:
        found = cfn.list_stacks(StackStatusFilter=list(statuses))["StackSummaries"]
        return sorted(one["StackName"] for one in found)

    assert (names(), names("CREATE_COMPLETE"), names("DELETE_COMPLETE")) == (
        ["a", "b"],
        ["a"],
        ["b"],
    )


def test_an_update_keeps_parameters_and_tags(account: Account, cfn: Any) -> None:
    passed = [{"ParameterKey": "Display", "ParameterValue": "mine"}]
    account.deploy(topics("A"), Parameters=passed)
    kept = [{"ParameterKey": "Display", "UsePreviousValue": True}]
    cfn.update_stack(
        StackName="stack",
        UsePreviousTemplate=True,
        Parameters=kept,
        Tags=[{"Key": "a", "Value": "1"}],
    )
    account.settled()
    found = {one["ParameterKey"]: one["ParameterValue"] for one in stack(cfn)["Parameters"]}
    assert found["Display"] == "mine"

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A"), Tags=[{"Key": "a", "Value": "1"}])
    account.deploy(topics("A", "B"))
    kept = stack(cfn)["Tags"]
    account.deploy(topics("A", "B"), Tags=[{"Key": "a", "Value": "2"}])
    assert (kept, stack(cfn)["Tags"]) == (
        [{"Key": "a", "Value": "1"}],
        [{"Key": "a", "Value": "2"}],
    )


def test_a_stack_is_made_once_and_updated_only_by_changes(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    body = json.dumps(topics("A"), indent=3)
    assert refused(cfn.update_stack, StackName="stack", TemplateBody=body) == (
        "ValidationError", "No updates are to be performed.",
    )  # fmt: skip
    code, message = refused(
        cfn.create_stack, StackName="stack", TemplateBody=json.dumps(topics("B"))
    )
    assert (code, message) == ("AlreadyExistsException", "Stack [stack] already exists")


def test_a_template_is_validated_or_fetched(cfn: Any, account: Account) -> None:
    _, message = refused(cfn.create_stack, StackName="stack")
    assert message == "Either Template URL or Template Body must be specified."

    wrong = json.dumps(topics("A")).replace('"Display"}', '"Absent"}')
    refused(cfn.create_stack, StackName="stack", TemplateBody=wrong)
    assert cfn.list_stacks()["StackSummaries"] == []
    assert cfn.validate_template(TemplateBody=json.dumps(topics("A")))["Description"] == "topics"
    assert "Resources" in refused(cfn.validate_template, TemplateBody="{}")[1]

    account = account.another()
    cfn = account.client("cloudformation")
    account.put_archive(json.dumps(topics("A")).encode(), "template.json")
    url = f"https://archives-{account.number}.s3.us-east-1.amazonaws.com/template.json"
    cfn.create_stack(StackName="stack", TemplateURL=url)
    assert account.settled() == "CREATE_COMPLETE"


def test_a_stacks_resources_and_template_are_described(account: Account, cfn: Any) -> None:
    account.deploy(topics("A", "B"))
    listed = cfn.list_stack_resources(StackName="stack")["StackResourceSummaries"]
    described = cfn.describe_stack_resources(StackName="stack")["StackResources"]
    only = cfn.describe_stack_resources(StackName="stack", LogicalResourceId="B")["StackResources"]
    detail = cfn.describe_stack_resource(StackName="stack", LogicalResourceId="A")[
        "StackResourceDetail"
    ]
    ids = [{one["LogicalResourceId"] for one in found} for found in (listed, described, only)]
    assert ids == [{"A", "B"}, {"A", "B"}, {"B"}]
    assert (detail["ResourceType"], detail["ResourceStatus"]) == (
        "AWS::SNS::Topic",
        "CREATE_COMPLETE",
    )
    assert detail["PhysicalResourceId"].startswith("arn:aws:sns:")
    message = refused(cfn.describe_stack_resource, StackName="stack", LogicalResourceId="C")[1]
    assert message == "Resource C does not exist for stack stack"

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A"))
    of_stack = cfn.get_template_summary(StackName="stack")
    of_text = cfn.get_template_summary(TemplateBody=json.dumps(topics("A")))
    for found in (of_stack, of_text):
        display, secret = found["Parameters"]
        assert (found["Description"], found["ResourceTypes"]) == ("topics", ["AWS::SNS::Topic"])
        assert (display["DefaultValue"], display["Description"], display["NoEcho"]) == (
            "first", "shown", False,
        )  # fmt: skip
        assert (secret["ParameterKey"], secret["NoEcho"]) == ("Secret", True)
    (topic,) = cfn.describe_stack_resources(StackName="stack")["StackResources"]
    found = cfn.describe_stack_resources(PhysicalResourceId=topic["PhysicalResourceId"])
    assert found["StackResources"] == [topic]


# --- exports
def test_exports_are_imported_and_kept(account: Account, cfn: Any) -> None:
    account.deploy(topics("A", output="shared"), "exporting")
    (export,) = cfn.list_exports()["Exports"]
    assert (export["Name"], export["ExportingStackId"]) == (
        "shared",
        stack(cfn, "exporting")["StackId"],
    )
    assert account.deploy(importing("shared"), "importing") == "CREATE_COMPLETE"
    topic = account.client("sns").get_topic_attributes(
        TopicArn=cfn.describe_stack_resource(StackName="importing", LogicalResourceId="Other")[
            "StackResourceDetail"
        ]["PhysicalResourceId"]
    )
    assert topic["Attributes"]["DisplayName"] == export["Value"]

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A", output="shared"), "exporting")
    account.deploy(importing("shared"), "importing")
    message = refused(cfn.delete_stack, StackName="exporting")[1]
    account.delete("importing")
    assert message == "Export of exporting cannot be deleted as it is in use by importing"
    assert account.delete("exporting") == "DELETE_COMPLETE"

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A", output="shared"), "first")
    assert account.deploy(topics("A", output="shared"), "second") == "ROLLBACK_COMPLETE"
    assert account.deploy(topics("A", "B", output="shared"), "first") == "UPDATE_COMPLETE"


# --- deletion and protection


def test_a_protected_stack_is_not_deleted(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"), EnableTerminationProtection=True)
    message = refused(cfn.delete_stack, StackName="stack")[1]
    cfn.update_termination_protection(StackName="stack", EnableTerminationProtection=False)
    assert message == "Stack [stack] cannot be deleted while TerminationProtection is enabled"
    assert account.delete() == "DELETE_COMPLETE"


def test_a_failed_stack_is_rolled_back_or_stays(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    broken = topics("A", "B", Outputs={"O": {"Value": "x"}})
    broken["Resources"]["B"]["Properties"]["Absent"] = 1
    assert account.deploy(broken) == "UPDATE_ROLLBACK_COMPLETE"
    body = cfn.get_template(StackName="stack")["TemplateBody"]
    assert (body, stack(cfn).get("Outputs", [])) == (topics("A"), [])

    account = account.another()
    cfn = account.client("cloudformation")
    broken = topics("A")
    broken["Resources"]["A"]["Properties"]["Absent"] = 1
    assert account.deploy(broken) == "ROLLBACK_COMPLETE"
    message = refused(cfn.update_stack, StackName="stack", TemplateBody=json.dumps(topics("B")))[1]
    assert message.endswith("is in ROLLBACK_COMPLETE state and can not be updated.")

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A"))
    broken = topics("A", "B")
    broken["Resources"]["B"]["Properties"]["Absent"] = 1
    assert account.deploy(broken, DisableRollback=True) == "UPDATE_FAILED"
    assert account.deploy(topics("A", "B"), DisableRollback=True) == "UPDATE_COMPLETE"


# --- change sets


def change(cfn: Any, name: str = "change", **given: Any) -> Any:
    given.setdefault("TemplateBody", json.dumps(topics("A")))
    return cfn.create_change_set(StackName="stack", ChangeSetName=name, **given)


def test_a_change_set_of_a_new_stack_waits_in_review(account: Account, cfn: Any) -> None:
    change(cfn, ChangeSetType="CREATE", Description="mine")
    found = cfn.describe_change_set(StackName="stack", ChangeSetName="change")
    assert stack(cfn)["StackStatus"] == "REVIEW_IN_PROGRESS"
    assert (found["Description"], found["ExecutionStatus"]) == ("mine", "AVAILABLE")
    assert [one["ResourceChange"]["Action"] for one in found["Changes"]] == ["Add"]


@pytest.mark.parametrize(
    ("deployed", "given", "message"),
    [
        (
            False,
            {"ChangeSetType": "IMPORT"},
            "The following resources to import [] must have DeletionPolicy",
        ),
        (False, {"ChangeSetType": "UPDATE"}, "Stack [stack] does not exist"),
        (
            True,
            {"ChangeSetType": "CREATE"},
            "Stack [stack] already exists and cannot be created again",
        ),
        (False, {"ChangeSetType": "CREATE", "TemplateBody": "{}"}, "Template format error"),
    ],
)
def test_a_change_set_that_does_not_fit_its_stack_is_refused(
    account: Account, cfn: Any, deployed: bool, given: dict[str, Any], message: str
) -> None:
    if deployed:
        account.deploy(topics("A"))
    assert refused(change, cfn=cfn, **given)[1].startswith(message)
    assert len(cfn.list_stacks()["StackSummaries"]) == int(deployed)


def test_change_sets_are_listed_deleted_and_executed(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    change(cfn, "one", TemplateBody=json.dumps(topics("B")))
    code, message = refused(change, cfn=cfn, name="one", TemplateBody=json.dumps(topics("C")))
    change(cfn, "two", TemplateBody=json.dumps(topics("C")))

    def names() -> list[str]:
        found = cfn.list_change_sets(StackName="stack")["Summaries"]
        return [one["ChangeSetName"] for one in found]

    before = names()
    for _ in range(2):
        cfn.delete_change_set(StackName="stack", ChangeSetName="one")
    assert (code, message) == ("AlreadyExistsException", "ChangeSet one already exists")
    assert (before, names()) == (["one", "two"], ["two"])

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A"))
    number = change(cfn, "one", TemplateBody=json.dumps(topics("B")))["Id"]
    change(cfn, "two", TemplateBody=json.dumps(topics("C")))
    cfn.execute_change_set(ChangeSetName=number)
    account.settled()
    assert cfn.list_change_sets(StackName="stack")["Summaries"] == []
    assert cfn.describe_change_set(ChangeSetName=number)["ExecutionStatus"] == "EXECUTE_COMPLETE"


@pytest.mark.parametrize(
    ("planned", "executed", "status"),
    [
        ({}, {}, "UPDATE_ROLLBACK_COMPLETE"),
        ({}, {"DisableRollback": True}, "UPDATE_FAILED"),
        ({"OnStackFailure": "DO_NOTHING"}, {}, "UPDATE_FAILED"),
        ({"OnStackFailure": "DO_NOTHING"}, {"DisableRollback": False}, "UPDATE_ROLLBACK_COMPLETE"),
    ],
)
def test_who_executes_a_change_set_says_whether_a_failure_is_taken_back(
    account: Account, cfn: Any, planned: dict[str, Any], executed: dict[str, Any], status: str
) -> None:
    account.deploy(topics("A"))
    broken = topics("A", "B")
    broken["Resources"]["B"]["Properties"]["Absent"] = 1
    number = change(cfn, TemplateBody=json.dumps(broken), **planned)["Id"]
    cfn.execute_change_set(ChangeSetName=number, **executed)
    assert account.settled() == status


def test_a_change_set_of_nothing_fails_and_of_tags_does_not(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    change(cfn)
    given = {"StackName": "stack", "ChangeSetName": "change"}
    assert cfn.describe_change_set(**given)["Status"] == "FAILED"
    message = refused(cfn.execute_change_set, **given)[1]
    assert message.endswith("cannot be executed in its current status of [FAILED]")

    account = account.another()
    cfn = account.client("cloudformation")
    account.deploy(topics("A"))
    change(cfn, Tags=[{"Key": "a", "Value": "1"}])
    found = cfn.describe_change_set(StackName="stack", ChangeSetName="change")
    assert (found["Status"], found["Changes"]) == ("CREATE_COMPLETE", [])


# The CLI's messages of AWS's refusals, as public repositories quote them (read 2026-11-28).
@pytest.mark.parametrize(
    ("operation", "given", "message"),
    [
        (
            "update_stack",
            {"StackName": "none", "TemplateBody": "{}"},
            "Stack [none] does not exist",
        ),
        (
            "describe_stack_resources",
            {"PhysicalResourceId": "i-1"},
            "Stack for i-1 does not exist",
        ),
        (
            "create_stack",
            {"StackName": "big", "TemplateBody": "x" * 51_201},
            f"1 validation error detected: Value '{'x' * 51_201}' at 'templateBody' failed to satisfy "
            "constraint: Member must have length less than or equal to 51200",
        ),
        (
            "create_stack",
            {"StackName": "n" * 129, "TemplateBody": json.dumps(topics("A"))},
            f"1 validation error detected: Value '{'n' * 129}' at 'stackName' failed to satisfy "
            "constraint: Member must have length less than or equal to 128",
        ),
        (
            "create_stack",
            {
                "StackName": "stack",
                "TemplateBody": json.dumps(
                    topics("A") | {"Conditions": {"C": {"Fn::Equals": [{"Ref": "A"}, "a"]}}}
                ),
            },
            "Template format error: Unresolved dependencies [A]. Cannot reference resources in the "
            "Conditions block of the template",
        ),
        (
            "create_stack",
            {
                "StackName": "stack",
                "TemplateBody": json.dumps(topics("A") | {"Conditions": {"C": {"Condition": "D"}}}),
            },
            "Template format error: Unresolved condition dependency D in the Conditions block of the "
            "template",
        ),
    ],
)
def test_a_refusal_has_aws_s_words(
    cfn: Any, operation: str, given: dict[str, str], message: str
) -> None:
    assert refused(getattr(cfn, operation), **given) == ("ValidationError", message)
