"""What exists is asked of each service: also what only CloudFormation's templates name."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servable_local.aws import lifecycle
from servable_local.aws.inventory import _function_permissions
from servable_local.aws.server import Server
from tests.servable_local.aws.deployed_templates import role
from tests.servable_local.aws.local_account import Account

FUNCTION: dict[str, Any] = {
    "Type": "AWS::Lambda::Function",
    "Properties": {
        "FunctionName": "notify",
        "Handler": "index.handler",
        "Runtime": "python3.12",
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "Code": {"ZipFile": "def handler(event, context): ..."},
    },
}


class AbsentError(Exception):
    pass


class Functions:
    """Lambda with the functions `a` and `b`; only `a` has a policy, of two statements."""

    exceptions = SimpleNamespace(ResourceNotFoundException=AbsentError)

    def client(self, service: str) -> Any:
        return self

    def get_paginator(self, operation: str) -> Any:
        return self

    def paginate(self) -> Any:
        return [{"Functions": [{"FunctionName": name} for name in "ba"]}]

    def get_policy(self, **request: str) -> dict[str, str]:
        if request["FunctionName"] == "b":
            raise AbsentError
        return {"Policy": json.dumps({"Statement": [{"Sid": "first"}, {"Sid": "second"}]})}


def test_permissions_of_functions_are_counted_one_by_one() -> None:
    assert list(_function_permissions(Functions().client)) == ["first", "second"]


@pytest.mark.parametrize("by_hand", [True, False])
def test_a_function_is_deleted_with_its_stack(account: Account, by_hand: bool) -> None:
    functions = account.client("lambda")
    account.deploy({"Resources": {"Role": role(), "Function": FUNCTION}})
    if by_hand:
        functions.delete_function(FunctionName="notify")
    assert account.delete() == "DELETE_COMPLETE"
    assert functions.list_functions()["Functions"] == []


def test_ownership_of_a_buckets_objects_is_as_the_template_says(account: Account) -> None:
    rules = [{"ObjectOwnership": "BucketOwnerEnforced"}]
    properties = {"BucketName": "owned", "OwnershipControls": {"Rules": rules}}
    account.deploy({"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties}}})
    controls = account.client("s3").get_bucket_ownership_controls(Bucket="owned")
    assert controls["OwnershipControls"] == {"Rules": rules}


@pytest.mark.usefixtures("server")
def test_a_process_has_one_local_aws(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a local AWS runs in this process already: http://127"):
        Server(folder=tmp_path)


def test_without_psutil_none_is_starting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(lifecycle.sys.modules, "psutil", None)  # type: ignore[attr-defined]
    assert lifecycle._starting(tmp_path) is None
