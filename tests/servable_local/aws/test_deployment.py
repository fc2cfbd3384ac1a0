"""What a deployment does with the services: failures, names, Regions, tags, and dynamic references.

A dynamic reference gets its value from Parameter Store or Secrets Manager.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import lifecycle
from servable_local.aws.local_aws import BootstrapError, bootstrap, find_template
from servable_local.aws.server import Server
from tests.servable_local.aws.deployed_templates import TARGET, alarm, get, resource, role, serving
from tests.servable_local.aws.local_account import Account


def test_what_cannot_be_made_fails_by_name(account: Account) -> None:
    wrong = alarm()
    wrong["Properties"]["Treshold"] = 1
    target = resource(
        "ApplicationAutoScaling::ScalableTarget", ServiceNamespace="sagemaker", ResourceId=TARGET,
        ScalableDimension="sagemaker:variant:DesiredInstanceCount", MinCapacity=1, MaxCapacity=2,
    )  # fmt: skip
    for name, one, problem in [
        ("Alarm", wrong, "Treshold"),
        ("Target", target, "Could not find endpoint"),
    ]:
        account.deploy({"Resources": {name: one}}, f"of-{name}")
        assert problem in account.reason(name, "CREATE_FAILED", f"of-{name}")


def test_a_stack_is_of_its_region_alone(account: Account) -> None:
    account.deploy({"Resources": {"Topic": resource("SNS::Topic")}})
    cfn = account.aws.client("cloudformation", account=account.number, region="eu-west-1")
    assert cfn.describe_stacks()["Stacks"] == []
    body = json.dumps({"Resources": {"Bucket": resource("S3::Bucket")}})
    cfn.create_stack(StackName="stack", TemplateBody=body)
    wait = {"Delay": 0.02, "MaxAttempts": 500}
    cfn.get_waiter("stack_create_complete").wait(StackName="stack", WaiterConfig=wait)
    found = cfn.describe_stack_resource(StackName="stack", LogicalResourceId="Bucket")
    bucket = found["StackResourceDetail"]["PhysicalResourceId"]
    where = account.client("s3").get_bucket_location(Bucket=bucket)
    assert where["LocationConstraint"] == "eu-west-1"


@pytest.mark.long
def test_a_change_set_of_another_archive_replaces_the_model(account: Account) -> None:
    account.deploy(serving(account.put_archive(b"old", "old")))
    body, named = json.dumps(serving(account.put_archive(b"new", "new"))), {"StackName": "stack"}
    cfn = account.client("cloudformation")
    cfn.create_change_set(**named, ChangeSetName="change", TemplateBody=body)
    changes = cfn.describe_change_set(**named, ChangeSetName="change")["Changes"]
    found = [one["ResourceChange"] for one in changes]
    assert {one["LogicalResourceId"]: one.get("Replacement") for one in found} == {
        "Model": "True", "Config": "Conditional", "Endpoint": "False",
    }  # fmt: skip


def test_a_retained_bucket_and_key_keep_their_own_and_the_stacks_tags(account: Account) -> None:
    bucket = resource("S3::Bucket", Tags=[{"Key": "own", "Value": "1"}])
    resources = {"Bucket": bucket, "Key": resource("KMS::Key", KeyPolicy={})}
    template = {"Resources": {k: v | {"DeletionPolicy": "Retain"} for k, v in resources.items()}}
    tags = [{"Key": "cost-center", "Value": "42"}]
    deployed = account.deploy(template, "ranker-data", Tags=tags)
    account.delete("ranker-data")
    s3, kms = account.client("s3"), account.client("kms")
    (bucket,) = s3.list_buckets()["Buckets"]
    of_bucket = s3.get_bucket_tagging(Bucket=bucket["Name"])["TagSet"]
    (key,) = kms.list_keys()["Keys"]
    of_key = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
    assert deployed == "CREATE_COMPLETE"
    assert {tag["Key"]: tag["Value"] for tag in of_bucket} == {"cost-center": "42", "own": "1"}
    assert {tag["TagKey"]: tag["TagValue"] for tag in of_key} == {"cost-center": "42"}


def test_a_function_that_is_gone_is_deleted_with_its_stack(account: Account) -> None:
    functions = account.client("lambda")
    function = resource(
        "Lambda::Function", FunctionName="notify", Handler="index.handler", Runtime="python3.12",
        Role=get("Role", "Arn"), Code={"ZipFile": "def handler(event, context): ..."},
    )  # fmt: skip
    account.deploy({"Resources": {"Role": role(), "Function": function}})
    functions.delete_function(FunctionName="notify")
    assert account.delete() == "DELETE_COMPLETE"
    assert functions.list_functions()["Functions"] == []


# --- dynamic references


@pytest.fixture
def stored(account: Account) -> Account:
    """With a parameter of two versions, a secret one, and a secret of two versions."""
    ssm, secrets = account.client("ssm"), account.client("secretsmanager")
    ssm.put_parameter(Name="/ranker/size", Value="first", Type="String")
    ssm.put_parameter(Name="/ranker/size", Value="second", Type="String", Overwrite=True)
    ssm.put_parameter(Name="token", Value="hidden", Type="SecureString")
    old, new = (json.dumps({"user": "admin", "password": word}) for word in ("old", "new"))
    secrets.create_secret(Name="db", SecretString=old)
    secrets.put_secret_value(SecretId="db", SecretString=new)
    return account


def copying(*values: Any, **more: Any) -> dict[str, Any]:
    """Parameters `copy-0` and so on of these values."""
    given = {"Type": "String", **more}
    copies = [
        resource("SSM::Parameter", Name=f"copy-{number}", Value=value, **given)
        for number, value in enumerate(values)
    ]
    return {"Resources": {f"Copy{number}": one for number, one in enumerate(copies)}}


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
    declared = copying(*[value for value, _ in REFERENCES])
    declared["Parameters"] = {"Id": {"Type": "String", "Default": "db"}}
    assert stored.deploy(declared) == "CREATE_COMPLETE"
    expected = [value for _, value in REFERENCES]
    assert [copied(stored, number) for number in range(len(expected))] == expected
    events = stored.client("cloudformation").describe_stack_events(StackName="stack")
    shown = json.dumps([event.get("ResourceProperties") for event in events["StackEvents"]])
    assert ("resolve:secretsmanager:db" in shown, "new" in shown) == (True, False)


def test_the_next_deployment_takes_a_parameters_new_value(stored: Account) -> None:
    reference = "{{resolve:ssm:/ranker/size}}"
    stored.deploy(copying(reference))
    changed = {"Name": "/ranker/size", "Value": "third", "Overwrite": True}
    stored.client("ssm").put_parameter(**changed, Type="String")
    described = copying(reference, Description="A changed template is deployed.")
    assert stored.deploy(described) == "UPDATE_COMPLETE"
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
        assert stored.deploy(copying(value), name) == "ROLLBACK_COMPLETE"
        assert problem in stored.reason("Copy0", "CREATE_FAILED", name)


# --- the stack of `cdk bootstrap`, created from the CDK CLI's template without running the CLI


@pytest.fixture
def without_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, with no CDK CLI in it or on the path."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def bootstrapped(account: Account, folder: Path) -> bool:
    return bootstrap(account.aws, account=account.number, region="us-east-1", folder=folder)


def test_bootstrapping_leaves_a_stack_alone_or_needs_the_cli(
    account: Account, without_cli: Path
) -> None:
    assert not bootstrapped(account, without_cli)
    cfn = account.client("cloudformation")
    assert cfn.describe_stacks()["Stacks"] == []
    account.deploy({"Resources": {"Topic": resource("SNS::Topic")}}, "CDKToolkit")
    assert bootstrapped(account, without_cli)
    resources = cfn.list_stack_resources(StackName="CDKToolkit")["StackResourceSummaries"]
    assert [one["LogicalResourceId"] for one in resources] == ["Topic"]


def test_the_cli_on_the_path_precedes_the_one_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = []
    for name in ("global", "project/node_modules"):
        package = tmp_path / name / "aws-cdk"
        templates.append(package / "lib/api/bootstrap/bootstrap-template.yaml")
        templates[-1].parent.mkdir(parents=True)
        templates[-1].touch()
    program = tmp_path / "global/aws-cdk/bin/cdk"
    program.parent.mkdir()
    program.touch(mode=0o700)
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/cdk").symlink_to(program)
    for path, template in (("empty", templates[1]), ("programs", templates[0])):
        monkeypatch.setenv("PATH", str(tmp_path / path))
        assert find_template(tmp_path / "project/.servable") == template


def test_a_stack_that_fails_is_reported_with_its_address(
    account: Account, without_cli: Path
) -> None:
    broken = without_cli / "node_modules/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml"
    broken.parent.mkdir(parents=True)
    broken.write_text("Resources: {A: {Type: 'AWS::DynamoDB::Table'}}")
    problem = f"cannot bootstrap aws://{account.number}/us-east-1"
    for _ in range(2):  # a stack that was rolled back doesn't count as bootstrapped
        with pytest.raises(BootstrapError, match=problem):
            bootstrapped(account, without_cli)


# --- the process


@pytest.mark.usefixtures("server")
def test_a_process_has_one_local_aws(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a local AWS already runs in this process: http://127"):
        Server(folder=tmp_path)


def test_without_psutil_none_is_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(lifecycle.sys.modules, "psutil", None)  # type: ignore[attr-defined]
    assert lifecycle._find_starting_process(tmp_path) is None
