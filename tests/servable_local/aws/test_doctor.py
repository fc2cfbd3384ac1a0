"""`servable doctor`: what is missing, each with how to mend it; and what could not be asked."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from infra.parameters.environment import Environment
from servable import __version__
from servable.doctor.account import (
    check_account,
    check_archive_key,
    check_endpoint_stack,
    check_network,
    check_quotas,
    count_needed_instances,
)
from servable.doctor.machine import CheckResult, check_machine
from servable.doctor.machine import check_project_files as project_files_look
from servable.new.project_files import STAMP, build_project_files, write_all
from servable.project.account import Account
from servable_local.aws import LocalAws
from tests.checkouts import ROOT
from tests.servable.test_cost import environment

GROUP = "/aws/sagemaker/Endpoints/ranker"


def asked(embedded: LocalAws, number: str = "111111111111") -> dict[str, CheckResult]:
    told = Account(region="us-west-2", number=number, aws=embedded)
    return {one.name: one for one in check_account("prod", environment(rps=10), told)}


@pytest.mark.long
def test_this_machine_has_what_it_takes_also_with_another_python_than_the_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("servable.doctor.machine.images.find_python", lambda version: "3.99")
    looks = {one.name: one for one in check_machine(ROOT)}
    assert [name for name, one in looks.items() if one.state != "ok"] == []
    look = looks["image's Python"]
    assert look.said.partition(";")[0] == "3.99"
    assert look.mend.startswith(
        "optional: to run code as in the image, install Servable with Python 3.99"
    )


def test_a_machine_without_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    looks = {one.name: one for one in check_machine(tmp_path)}
    assert (looks["Node"].state, looks["Node"].mend) == ("problem", "`make install`")


def test_a_projects_files_are_held_to_this_version(tmp_path: Path) -> None:
    assert project_files_look(tmp_path).mend == "`servable init` writes the missing files"
    write_all(tmp_path, build_project_files("mine"))
    assert project_files_look(tmp_path).state == "ok"
    file = tmp_path / "cdk.json"
    told = json.loads(file.read_text())
    told["context"] |= {STAMP: "0.0.9"}
    flag = next(one for one in told["context"] if one.startswith("@aws-cdk/"))
    del told["context"][flag]
    file.write_text(json.dumps(told))
    (tmp_path / "environments" / "schema.json").write_text("{}")
    pins = (tmp_path / "package.json").read_text()
    (tmp_path / "package.json").write_text(pins.replace('"aws-cdk": "2.', '"aws-cdk": "1.'))
    look = project_files_look(tmp_path)
    assert look.said == f"written by servable 0.0.9; this is {__version__}"
    for step in (
        "Upgrading",
        "delete environments/schema.json and run `servable init`",
        "npm install --save-dev --save-exact aws-cdk@2.",
        flag,
        f'"{STAMP}": "{__version__}"',
    ):
        assert step in look.mend
    file.write_text('{"app": "servable-app"}')
    assert "cdk.json doesn't record" in project_files_look(tmp_path).said


def test_what_an_account_has_is_looked_at(
    embedded: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = asked(embedded)
    assert looks["bootstrap"].mend == "`cdk bootstrap aws://111111111111/us-west-2`"
    assert looks["names"].state == "ok"
    assert (looks["quotas"].state, looks["quotas"].said) == ("open", "the local AWS has no quotas")
    look = looks["SageMaker SDK"]
    assert (look.state, "Session(default_bucket=NAME)" in look.mend) == ("open", True)
    logs = embedded.client("logs", account="111111111111", region="us-west-2")
    logs.create_log_group(logGroupName=GROUP)
    look = asked(embedded)["log group"]
    logs.delete_log_group(logGroupName=GROUP)
    command = f"`aws logs delete-log-group --log-group-name {GROUP} --region us-west-2`"
    assert (look.state, command in look.mend) == ("problem", True)
    assert asked(embedded, "222222222222")["credentials"].state == "problem"
    for name, value in embedded.environment().items():
        monkeypatch.setenv(name, value)
    assert Account(region="us-west-2", number="111111111111").has_custom_endpoint


def test_a_protected_failed_stack_is_a_problem_with_the_command_that_unlocks_it() -> None:
    unlock = (
        "`aws cloudformation update-termination-protection --no-enable-termination-protection "
        "--stack-name prod-endpoint --region us-west-2`, then `cdk deploy 'prod/*'`, which deletes it "
        "and creates it again"
    )
    for status, protected, locked in (
        ("ROLLBACK_COMPLETE", True, True),
        ("ROLLBACK_FAILED", True, True),
        ("ROLLBACK_COMPLETE", False, False),  # `cdk deploy` deletes it first
        ("UPDATE_ROLLBACK_COMPLETE", True, False),
    ):
        stack = {
            "StackId": "arn:aws:cloudformation:us-west-2:111111111111:stack/prod-endpoint/1",
            "StackName": "prod-endpoint", "StackStatus": status,
            "EnableTerminationProtection": protected,
        }  # fmt: skip
        told = Told(describe_stacks={"Stacks": [stack]})
        (look,) = check_endpoint_stack("prod", environment(), told)
        assert (look.state, look.mend == unlock) == ("problem" if locked else "ok", locked)


class Silent(Account):
    """An account whose answer is an error."""

    def __init__(self, wrong: Exception) -> None:
        self.wrong, self.endpoint_url = wrong, None

    def fetch_identity(self) -> dict[str, str]:
        raise self.wrong


def test_without_credentials_or_offline_it_says_what_could_not_be_asked() -> None:
    looks = list(check_account("prod", environment(), Silent(NoCredentialsError())))
    assert [(one.name, one.state) for one in looks] == [("credentials", "problem")]

    wrong = EndpointConnectionError(endpoint_url="https://sts")
    (look,) = check_account("prod", environment(), Silent(wrong))
    assert (look.state, look.said.startswith("could not be checked")) == ("unknown", True)


def test_the_quota_must_hold_both_fleets_of_an_update() -> None:
    canary = environment(2, 12, rollout={"strategy": "canary"})
    assert count_needed_instances(canary) == {"ml.c5.xlarge": 24}
    (look,) = check_quotas(canary, Told(list_service_quotas=quota(23)))
    assert look.state == "problem"
    assert look.mend.startswith("ask for 24 of 'ml.c5.xlarge for endpoint usage'")
    told = Told(list_aws_default_service_quotas=quota(0))
    assert [one.state for one in check_quotas(environment(), told)] == ["problem"]
    told = Told(list_aws_default_service_quotas=quota(0), list_service_quotas=quota(2))
    assert [one.state for one in check_quotas(environment(), told)] == ["ok"]


class Told(Silent):
    """An account that answers what it was given: operation -> items, or answer."""

    def __init__(self, **answers: Any) -> None:
        self.answers, self.endpoint_url = answers, None

    def iterate_items(self, service: str, operation: str, key: str, **asked: Any) -> Iterator[Any]:
        yield from self.answers.get(operation, [])

    def client(self, service: str) -> Any:
        calls = {one: lambda _=found, **asked: _ for one, found in self.answers.items()}
        return SimpleNamespace(meta=SimpleNamespace(endpoint_url="https://sts"), **calls)


def quota(value: float) -> list[dict[str, object]]:
    return [{"QuotaName": "ml.c5.xlarge for endpoint usage", "Value": value}]


def test_subnets_and_vpc_endpoints_must_suffice_for_an_update() -> None:
    told = environment(2).model_dump(exclude_unset=True)
    network = {"subnets": ["subnet-0a1b2c3d"], "security_groups": ["sg-0a1b2c3d"]}
    inside = Environment.model_validate(told | {"network": network})
    one = {"AvailableIpAddressCount": 3, "VpcId": "vpc-1"}
    looks = list(check_network(inside, Told(describe_subnets={"Subnets": [one]})))
    assert (looks[0].name, looks[0].state) == ("subnets", "problem")
    assert "4 are needed at once" in looks[0].mend

    one = {"AvailableIpAddressCount": 250, "VpcId": "vpc-1"}
    there = [{"ServiceName": "com.amazonaws.us-west-2.s3"}]
    answers = Told(describe_subnets={"Subnets": [one]}, describe_vpc_endpoints=there)
    by_name = {look.name: look for look in check_network(inside, answers)}
    assert by_name["VPC endpoint s3"].state == "ok"
    assert "com.amazonaws.us-west-2.logs" in by_name["VPC endpoint logs"].mend


ARCHIVES = "arn:aws:kms:eu-west-1:111111111111:key/archives"


def test_the_key_of_the_bootstraps_bucket_is_held_to_the_files() -> None:
    cases: list[tuple[dict[str, str], list[str], str]] = [
        ({"KMSMasterKeyID": "archives"}, [ARCHIVES], "ok"),
        ({"KMSMasterKeyID": ARCHIVES}, [ARCHIVES], "ok"),
        ({"KMSMasterKeyID": "another"}, [ARCHIVES], "open"),
        ({}, [ARCHIVES], "problem"),
        ({}, [], "ok"),
    ]
    told = environment(2).model_dump(exclude_unset=True)
    for of_the_bucket, named, state in cases:
        default = {"SSEAlgorithm": "aws:kms", **of_the_bucket}
        rules = [{"ApplyServerSideEncryptionByDefault": default}]
        bucket = {"ServerSideEncryptionConfiguration": {"Rules": rules}}
        told["endpoint"] |= {"archive_kms_keys": named}
        (look,) = check_archive_key(
            Environment.model_validate(told), Told(get_bucket_encryption=bucket)
        )
        assert look.state == state, of_the_bucket
