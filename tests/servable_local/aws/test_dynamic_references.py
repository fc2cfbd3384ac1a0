"""A template's dynamic references get their values from Parameter Store and Secrets Manager."""

import json
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import lifecycle
from servable_local.aws.server import Server
from tests.servable_local.aws.deployed_templates import resource, role
from tests.servable_local.aws.local_account import Account

SECRET = {"user": "admin", "password": "old"}


@pytest.fixture
def stored(account: Account) -> Account:
    """With a parameter of two versions, a secret one, and a secret of two versions."""
    ssm, secrets = account.client("ssm"), account.client("secretsmanager")
    ssm.put_parameter(Name="/ranker/size", Value="first", Type="String")
    ssm.put_parameter(Name="/ranker/size", Value="second", Type="String", Overwrite=True)
    ssm.put_parameter(Name="token", Value="hidden", Type="SecureString")
    secrets.create_secret(Name="db", SecretString=json.dumps(SECRET))
    secrets.put_secret_value(SecretId="db", SecretString=json.dumps(SECRET | {"password": "new"}))
    return account


def template(*values: Any) -> dict[str, Any]:
    """Parameters `copy-0` and so on of these values."""
    resources = {
        f"Copy{number}": resource(
            "SSM::Parameter", Name=f"copy-{number}", Type="String", Value=value
        )
        for number, value in enumerate(values)
    }
    return {"Resources": resources}


def copied(account: Account, number: int = 0) -> str:
    parameter = account.client("ssm").get_parameter(Name=f"copy-{number}")["Parameter"]
    return str(parameter["Value"])


REFERENCES: list[tuple[Any, str]] = [
    ("{{resolve:ssm:/ranker/size}}", "second"),
    ("{{resolve:ssm:/ranker/size:1}}", "first"),
    ("a-{{resolve:ssm:/ranker/size:2}}-{{resolve:ssm:/ranker/size:1}}", "a-second-first"),
    ("{{resolve:ssm-secure:token}}", "hidden"),
    ("{{resolve:ssm-secure:token:1}}", "hidden"),
    ("{{resolve:secretsmanager:db:SecretString:password}}", "new"),
    ("{{resolve:secretsmanager:db:SecretString:password:AWSPREVIOUS}}", "old"),
    ("user={{resolve:secretsmanager:db:SecretString:user::}}", "user=admin"),
    ({"Fn::Join": ["", ["{{resolve:ssm:/ranker/", "size", "}}"]]}, "second"),
    ({"Fn::Sub": "{{resolve:secretsmanager:${Id}:SecretString:user}}"}, "admin"),
]


def test_a_reference_becomes_its_value_and_the_stack_keeps_no_secret(stored: Account) -> None:
    declared = template(*[value for value, _ in REFERENCES])
    declared["Parameters"] = {"Id": {"Type": "String", "Default": "db"}}
    assert stored.deploy(declared) == "CREATE_COMPLETE"
    expected = [value for _, value in REFERENCES]
    assert [copied(stored, number) for number in range(len(expected))] == expected
    events = stored.client("cloudformation").describe_stack_events(StackName="stack")
    shown = json.dumps([event.get("ResourceProperties") for event in events["StackEvents"]])
    assert ("resolve:secretsmanager:db" in shown, "new" in shown) == (True, False)


def test_the_next_deployment_takes_a_parameters_new_value(stored: Account) -> None:
    stored.deploy(template("{{resolve:ssm:/ranker/size}}"))
    stored.client("ssm").put_parameter(
        Name="/ranker/size", Value="third", Type="String", Overwrite=True
    )
    changed = template("{{resolve:ssm:/ranker/size}}")
    changed["Resources"]["Copy0"]["Properties"]["Description"] = "A changed template is deployed."
    assert stored.deploy(changed) == "UPDATE_COMPLETE"
    assert copied(stored) == "third"


def test_a_reference_to_nothing_fails(stored: Account) -> None:
    problems = {
        "{{resolve:ssm:/absent}}": "Parameter /absent cannot be found",
        "{{resolve:ssm:token}}": "refer to it with ssm-secure",
        "{{resolve:vault:token}}": "The dynamic reference {{resolve:vault:token}} is invalid",
        "{{resolve:secretsmanager:db:SecretString:absent}}": "Could not find a value associated",
        "{{resolve:secretsmanager:absent}}": "ResourceNotFoundException",
    }
    for number, (value, problem) in enumerate(problems.items()):
        name = f"stack-{number}"
        assert stored.deploy(template(value), name) == "ROLLBACK_COMPLETE"
        assert problem in stored.reason("Copy0", "CREATE_FAILED", name)


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_function_is_deleted_with_its_stack(account: Account, by_hand: bool) -> None:
    functions = account.client("lambda")
    function = resource(
        "Lambda::Function",
        FunctionName="notify",
        Handler="index.handler",
        Runtime="python3.12",
        Role={"Fn::GetAtt": ["Role", "Arn"]},
        Code={"ZipFile": "def handler(event, context): ..."},
    )
    account.deploy({"Resources": {"Role": role(), "Function": function}})
    if by_hand:
        functions.delete_function(FunctionName="notify")
    assert account.delete() == "DELETE_COMPLETE"
    assert functions.list_functions()["Functions"] == []


def test_ownership_of_a_buckets_objects_is_as_the_template_says(account: Account) -> None:
    rules = [{"ObjectOwnership": "BucketOwnerEnforced"}]
    bucket = resource("S3::Bucket", BucketName="owned", OwnershipControls={"Rules": rules})
    account.deploy({"Resources": {"Bucket": bucket}})
    controls = account.client("s3").get_bucket_ownership_controls(Bucket="owned")
    assert controls["OwnershipControls"] == {"Rules": rules}


@pytest.mark.usefixtures("server")
def test_a_process_has_one_local_aws(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a local AWS already runs in this process: http://127"):
        Server(folder=tmp_path)


def test_without_psutil_none_is_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(lifecycle.sys.modules, "psutil", None)  # type: ignore[attr-defined]
    assert lifecycle._find_starting_process(tmp_path) is None
