"""CloudFormation's API: stacks, templates, parameters, tags, exports, change sets, and refusals."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from servable_local.aws.cloudformation.resource_calls import ResourceCalls
from servable_local.aws.local_aws import REGION
from tests.servable_local.aws.deployed_templates import ref, resource
from tests.servable_local.aws.local_account import Account


def topics(*names: str, output: str | None = None, **more: Any) -> dict[str, Any]:
    """Topics, and with `output` an export of that name."""
    if output is not None:
        more["Outputs"] = {"Out": {"Value": ref(names[0]), "Export": {"Name": output}}}
    return {
        "Description": "topics",
        "Parameters": {
            "Display": {"Type": "String", "Default": "first", "Description": "shown"},
            "Secret": {"Type": "String", "Default": "s", "NoEcho": True},
        },
        "Resources": {name: resource("SNS::Topic", DisplayName=ref("Display")) for name in names},
        **more,
    }


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


def test_a_deleted_stack_is_found_by_its_id_and_status_alone(account: Account, cfn: Any) -> None:
    cfn.delete_stack(StackName="absent")
    account.deploy(topics("A"), "kept")
    account.deploy(topics("B"))
    number = stack(cfn)["StackId"]
    account.delete()
    cfn.delete_stack(StackName=number)
    assert stack(cfn, number)["StackStatus"] == "DELETE_COMPLETE"
    assert [one["StackName"] for one in cfn.describe_stacks()["Stacks"]] == ["kept"]
    absent = ("ValidationError", "Stack with id stack does not exist")
    assert refused(cfn.describe_stacks, StackName="stack") == absent
    filters: list[list[str]] = [[], ["CREATE_COMPLETE"], ["DELETE_COMPLETE"]]
    found = [cfn.list_stacks(StackStatusFilter=one)["StackSummaries"] for one in filters]
    names = [sorted(one["StackName"] for one in listed) for listed in found]
    assert names == [["kept", "stack"], ["kept"], ["stack"]]


def test_the_cdk_cli_is_answered_when_the_stack_has_settled_and_others_at_once(
    account: Account, cfn: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, create = threading.Event(), ResourceCalls.create

    def create_later(*given: Any) -> None:
        assert may_go_on.wait(60)
        create(*given)

    monkeypatch.setattr(ResourceCalls, "create", create_later)
    session = boto3.Session(account.number, account.aws.secret_access_key, region_name=REGION)
    agent = Config(user_agent="aws-cdk/2.1148.1 aws-sdk-js/3.1075.0")
    cli = session.client("cloudformation", endpoint_url=account.aws.url, config=agent)
    account.deploy(topics("A"), wait=False)
    with ThreadPoolExecutor() as pool:
        described = pool.submit(stack, cli)
        assert stack(cfn)["StackStatus"] == "CREATE_IN_PROGRESS"
        may_go_on.set()
        assert described.result()["StackStatus"] == "CREATE_COMPLETE"


def test_an_update_keeps_parameters_and_tags(account: Account, cfn: Any) -> None:
    def tags(value: str) -> list[dict[str, str]]:
        return [{"Key": "a", "Value": value}]

    def described() -> tuple[str, Any]:
        found = {one["ParameterKey"]: one["ParameterValue"] for one in stack(cfn)["Parameters"]}
        return found["Display"], stack(cfn)["Tags"]

    passed = [{"ParameterKey": "Display", "ParameterValue": "mine"}]
    account.deploy(topics("A"), Parameters=passed, Tags=tags("1"))
    kept = [{"ParameterKey": "Display", "UsePreviousValue": True}]
    account.deploy(topics("A", "B"), Parameters=kept)
    assert described() == ("mine", tags("1"))
    cfn.update_stack(StackName="stack", UsePreviousTemplate=True, Parameters=kept, Tags=tags("2"))
    account.settled()
    assert described() == ("mine", tags("2"))


def test_a_stack_is_made_once_and_updated_only_by_changes(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    body = json.dumps(topics("A"), indent=3)
    same = refused(cfn.update_stack, StackName="stack", TemplateBody=body)
    assert same == ("ValidationError", "No updates are to be performed.")
    again = refused(cfn.create_stack, StackName="stack", TemplateBody=json.dumps(topics("B")))
    assert again == ("AlreadyExistsException", "Stack [stack] already exists")


def test_a_template_is_validated_or_fetched(cfn: Any, account: Account) -> None:
    _, message = refused(cfn.create_stack, StackName="stack")
    assert message == "Either Template URL or Template Body must be specified."
    wrong = json.dumps(topics("A")).replace('"Display"}', '"Absent"}')
    refused(cfn.create_stack, StackName="stack", TemplateBody=wrong)
    assert cfn.list_stacks()["StackSummaries"] == []
    assert cfn.validate_template(TemplateBody=json.dumps(topics("A")))["Description"] == "topics"
    assert "Resources" in refused(cfn.validate_template, TemplateBody="{}")[1]

    account.put_archive(json.dumps(topics("A")).encode(), "template.json")
    url = f"https://archives-{account.number}.s3.us-east-1.amazonaws.com/template.json"
    cfn.create_stack(StackName="stack", TemplateURL=url)
    assert account.settled() == "CREATE_COMPLETE"


def test_a_stacks_resources_and_template_are_described(account: Account, cfn: Any) -> None:
    account.deploy(topics("A", "B"))
    named = {"StackName": "stack"}
    listed = cfn.list_stack_resources(**named)["StackResourceSummaries"]
    described = cfn.describe_stack_resources(**named)["StackResources"]
    only = cfn.describe_stack_resources(**named, LogicalResourceId="B")["StackResources"]
    ids = [{one["LogicalResourceId"] for one in found} for found in (listed, described, only)]
    assert ids == [{"A", "B"}, {"A", "B"}, {"B"}]
    (topic,) = only
    found = cfn.describe_stack_resources(PhysicalResourceId=topic["PhysicalResourceId"])
    assert topic in found["StackResources"]
    detail = cfn.describe_stack_resource(**named, LogicalResourceId="A")["StackResourceDetail"]
    kind, status = "AWS::SNS::Topic", "CREATE_COMPLETE"
    assert (detail["ResourceType"], detail["ResourceStatus"]) == (kind, status)
    assert detail["PhysicalResourceId"].startswith("arn:aws:sns:")
    message = refused(cfn.describe_stack_resource, **named, LogicalResourceId="C")[1]
    assert message == "Resource C does not exist for stack stack"

    for of in (named, {"TemplateBody": json.dumps(topics("A", "B"))}):
        summary = cfn.get_template_summary(**of)
        assert (summary["Description"], summary["ResourceTypes"]) == ("topics", [kind])
        text = {"ParameterType": "String"}
        assert summary["Parameters"] == [
            {"ParameterKey": "Display", "DefaultValue": "first", "NoEcho": False,
             "Description": "shown", **text},
            {"ParameterKey": "Secret", "DefaultValue": "s", "NoEcho": True, **text},
        ]  # fmt: skip


# --- exports
def test_exports_are_imported_and_kept(account: Account, cfn: Any) -> None:
    account.deploy(topics("A", output="shared"), "exporting")
    (export,) = cfn.list_exports()["Exports"]
    number = stack(cfn, "exporting")["StackId"]
    assert (export["Name"], export["ExportingStackId"]) == ("shared", number)
    other = resource("SNS::Topic", DisplayName={"Fn::ImportValue": "shared"})
    assert account.deploy({"Resources": {"Other": other}}, "importing") == "CREATE_COMPLETE"
    imported = cfn.describe_stack_resource(StackName="importing", LogicalResourceId="Other")
    arn = imported["StackResourceDetail"]["PhysicalResourceId"]
    topic = account.client("sns").get_topic_attributes(TopicArn=arn)
    assert topic["Attributes"]["DisplayName"] == export["Value"]

    message = refused(cfn.delete_stack, StackName="exporting")[1]
    assert message == "Export of exporting cannot be deleted as it is in use by importing"
    account.delete("importing")
    assert account.deploy(topics("A", output="shared"), "second") == "ROLLBACK_COMPLETE"
    assert account.deploy(topics("A", "B", output="shared"), "exporting") == "UPDATE_COMPLETE"
    # The stack that was rolled back exports the same name, and imports nothing.
    assert account.delete("exporting") == "DELETE_COMPLETE"


# --- deletion and protection
def test_a_protected_stack_is_not_deleted(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"), EnableTerminationProtection=True)
    message = refused(cfn.delete_stack, StackName="stack")[1]
    cfn.update_termination_protection(StackName="stack", EnableTerminationProtection=False)
    assert message == "Stack [stack] cannot be deleted while TerminationProtection is enabled"
    assert account.delete() == "DELETE_COMPLETE"


def broken() -> dict[str, Any]:
    template = topics("A", "B", Outputs={"O": {"Value": "x"}})
    template["Resources"]["B"]["Properties"]["Absent"] = 1
    return template


def test_a_failed_stack_is_rolled_back_or_stays(account: Account, cfn: Any) -> None:
    assert account.deploy(broken(), "new") == "ROLLBACK_COMPLETE"
    message = refused(cfn.update_stack, StackName="new", TemplateBody=json.dumps(topics("B")))[1]
    assert message.endswith("is in ROLLBACK_COMPLETE state and can not be updated.")

    account.deploy(topics("A"))
    assert account.deploy(broken()) == "UPDATE_ROLLBACK_COMPLETE"
    body = cfn.get_template(StackName="stack")["TemplateBody"]
    assert (body, stack(cfn).get("Outputs", [])) == (topics("A"), [])
    assert account.deploy(broken(), DisableRollback=True) == "UPDATE_FAILED"
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
    assert account.inventory() == []
    cfn.execute_change_set(StackName="stack", ChangeSetName="change")
    assert (account.settled(), len(account.inventory())) == ("CREATE_COMPLETE", 1)


def test_a_change_set_that_does_not_fit_its_stack_is_refused(account: Account, cfn: Any) -> None:
    body = json.dumps(topics("A"))
    for kind, text, message in [
        ("IMPORT", body, "The following resources to import [] must have DeletionPolicy"),
        ("UPDATE", body, "Stack [stack] does not exist"),
        ("CREATE", "{}", "Template format error"),
    ]:
        answer = refused(change, cfn=cfn, ChangeSetType=kind, TemplateBody=text)
        assert answer[1].startswith(message)
        assert cfn.list_stacks()["StackSummaries"] == []
    account.deploy(topics("A"))
    message = refused(change, cfn=cfn, ChangeSetType="CREATE")[1]
    assert message.startswith("Stack [stack] already exists and cannot be created again")


def test_change_sets_are_listed_deleted_and_executed(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    for name in ("one", "two", "three"):
        number = change(cfn, name, TemplateBody=json.dumps(topics(name)))["Id"]
    again = refused(change, cfn=cfn, name="one", TemplateBody=json.dumps(topics("C")))
    assert again == ("AlreadyExistsException", "ChangeSet one already exists")

    def names() -> list[str]:
        found = cfn.list_change_sets(StackName="stack")["Summaries"]
        return [one["ChangeSetName"] for one in found]

    before = names()
    for _ in range(2):
        cfn.delete_change_set(StackName="stack", ChangeSetName="one")
    assert (before, names()) == (["one", "two", "three"], ["two", "three"])
    cfn.execute_change_set(ChangeSetName=number)
    account.settled()
    assert names() == []
    assert cfn.describe_change_set(ChangeSetName=number)["ExecutionStatus"] == "EXECUTE_COMPLETE"


def test_who_executes_a_change_set_says_whether_a_failure_is_taken_back(
    account: Account, cfn: Any
) -> None:
    account.deploy(topics("A"))
    stays = {"OnStackFailure": "DO_NOTHING"}
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({}, {}, "UPDATE_ROLLBACK_COMPLETE"),
        (stays, {"DisableRollback": False}, "UPDATE_ROLLBACK_COMPLETE"),
        ({}, {"DisableRollback": True}, "UPDATE_FAILED"),
        (stays, {}, "UPDATE_FAILED"),
    ]
    for count, (planned, executed, status) in enumerate(cases):
        number = change(cfn, TemplateBody=json.dumps(broken()), **planned)["Id"]
        cfn.execute_change_set(ChangeSetName=number, **executed)
        assert account.settled() == status
        account.deploy(topics("A", f"Another{count}"), DisableRollback=True)


def test_a_change_set_of_nothing_fails_and_of_tags_does_not(account: Account, cfn: Any) -> None:
    account.deploy(topics("A"))
    change(cfn)
    given = {"StackName": "stack", "ChangeSetName": "change"}
    assert cfn.describe_change_set(**given)["Status"] == "FAILED"
    message = refused(cfn.execute_change_set, **given)[1]
    assert message.endswith("cannot be executed in its current status of [FAILED]")
    change(cfn, "tags", Tags=[{"Key": "a", "Value": "1"}])
    found = cfn.describe_change_set(StackName="stack", ChangeSetName="tags")
    assert (found["Status"], found["Changes"]) == ("CREATE_COMPLETE", [])


LONG, UNRESOLVED = "x" * 51_201, "Template format error: Unresolved"


def too_long(name: str, value: str, most: int) -> str:
    return (
        f"1 validation error detected: Value '{value}' at '{name}' failed to satisfy constraint: "
        f"Member must have length less than or equal to {most}"
    )


def create(name: str, body: str = "", **conditions: Any) -> dict[str, str]:
    """A stack of one topic and these conditions, unless `body` says otherwise."""
    template = topics("A") | ({"Conditions": conditions} if conditions else {})
    return {"StackName": name, "TemplateBody": body or json.dumps(template)}


def test_a_refusal_has_aws_s_words(cfn: Any) -> None:
    """The CLI's messages of AWS's refusals, as public repositories quote them (read 2026-11-28)."""
    resource, condition = {"Fn::Equals": [{"Ref": "A"}, "a"]}, {"Condition": "D"}
    for call, given, message in [
        (cfn.update_stack, create("none", "{}"), "Stack [none] does not exist"),
        (cfn.describe_stack_resources, {"PhysicalResourceId": "i"}, "Stack for i does not exist"),
        (cfn.create_stack, create("big", LONG), too_long("templateBody", LONG, 51_200)),
        (cfn.create_stack, create("n" * 129), too_long("stackName", "n" * 129, 128)),
        (cfn.create_stack, create("stack", C=resource), f"{UNRESOLVED} dependencies [A]. Cannot "
         "reference resources in the Conditions block of the template"),
        (cfn.create_stack, create("stack", C=condition),
         f"{UNRESOLVED} condition dependency D in the Conditions block of the template"),
    ]:  # fmt: skip
        assert refused(call, **given) == ("ValidationError", message)
