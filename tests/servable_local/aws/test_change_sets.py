"""Change sets say what a deployment would do, and do it when executed."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

TOPIC = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic", "Properties": {}}}}


def _plan(account: Account, template: dict[str, Any], kind: str = "UPDATE") -> dict[str, Any]:
    cfn = account.client("cloudformation")
    cfn.create_change_set(
        StackName="stack",
        ChangeSetName="change",
        ChangeSetType=kind,
        TemplateBody=json.dumps(template),
    )
    return dict(cfn.describe_change_set(StackName="stack", ChangeSetName="change"))


def test_a_change_set_makes_what_it_said_when_it_is_executed(account: Account) -> None:
    _plan(account, TOPIC, "CREATE")
    assert account.inventory() == []
    account.client("cloudformation").execute_change_set(StackName="stack", ChangeSetName="change")
    assert account.settled() == "CREATE_COMPLETE"


def test_a_change_set_says_what_changes(account: Account) -> None:
    account.deploy(TOPIC)
    said = _plan(account, TOPIC)
    assert said["StatusReason"].startswith("The submitted information didn't contain changes.")

    account = account.another()
    account.deploy(serving(account.put_archive(b"old", "old")))
    changes = _plan(account, serving(account.put_archive(b"new", "new")))["Changes"]
    assert {
        change["ResourceChange"]["LogicalResourceId"]: change["ResourceChange"].get("Replacement")
        for change in changes
    } == {"Model": "True", "Config": "Conditional", "Endpoint": "False"}


def test_a_change_set_is_refused_with_the_reason(account: Account) -> None:
    account.deploy(TOPIC)
    with pytest.raises(ClientError, match="ChangeSetNotFound"):
        account.client("cloudformation").execute_change_set(
            StackName="stack", ChangeSetName="nothing"
        )
    wrong = {
        "Resources": {
            "Topic": {
                "Type": "AWS::SNS::Topic",
                "Properties": {"DisplayName": {"Fn::GetAtt": ["Topic2", "Nonsense"]}},
            },
            "Topic2": {"Type": "AWS::SNS::Topic", "Condition": "Never"},
        },
        "Conditions": {"Never": {"Fn::Equals": ["a", "b"]}},
    }
    with pytest.raises(ClientError, match=r"Unresolved resource dependencies \[Topic2\]"):
        _plan(account, wrong)
    name = {"Fn::If": ["Never", {"Ref": "Topic2"}, "name"]}
    topics = {
        "Topic": {"Type": "AWS::SNS::Topic", "Properties": {"DisplayName": name}},
        "Topic2": {"Type": "AWS::SNS::Topic", "Condition": "Never"},
    }
    conditions = {"Never": {"Fn::Equals": ["a", "b"]}}
    found = _plan(account, {"Resources": topics, "Conditions": conditions})
    assert found["ExecutionStatus"] == "AVAILABLE"
