"""An operation of IAM, S3 or Lambda that succeeds has changed what is kept: it can be read back.

Every operation that botocore knows is asked with the least that its input allows, on a role, a bucket and
so on of the name that all texts of such an input have.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.awslambda.models import lambda_backends
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends

from servable_local.aws.loopback import service_model
from tests.servable_local.aws.aws_answers import Asked, client
from tests.servable_local.aws.local_account import TRUST, Account
from tests.servable_local.aws.test_no_empty_success import least

pytestmark = pytest.mark.long
NAME = "absent"  # of `least`
LOOKS = ("Get", "List", "Head", "Describe", "Simulate", "Select", "Generate")
POLICY = '{"Version": "2012-10-17", "Statement": []}'
FUNCTION = {
    "FunctionName": NAME,
    "Role": "arn:aws:iam::$ACCOUNT:role/absent",
    "Handler": "i.h",
    "Runtime": "python3.12",
    "Code": {"ZipFile": "$ZIP"},
}
SETUPS: dict[str, list[Any]] = {
    "iam": [
        ["iam", "CreateRole", {"RoleName": NAME, "AssumeRolePolicyDocument": TRUST}],
        ["iam", "CreateUser", {"UserName": NAME}],
        ["iam", "CreateGroup", {"GroupName": NAME}],
        ["iam", "CreateInstanceProfile", {"InstanceProfileName": NAME}],
    ],
    "s3": [
        ["s3", "CreateBucket", {"Bucket": NAME}],
        ["s3", "PutObject", {"Bucket": NAME, "Key": NAME, "Body": "x"}],
    ],
    "lambda": [
        ["iam", "CreateRole", {"RoleName": NAME, "AssumeRolePolicyDocument": TRUST}],
        ["lambda", "CreateFunction", FUNCTION],
    ],
}
# On AWS too these succeed where there is nothing to do: the input names nothing new, or a bucket of one's own
# in us-east-1.
NOTHING_TO_DO = (
    *("CreateBucket", "Deactivate", "Delete", "Detach", "Disable", "PutBucketLogging"),
    *("PutBucketNotification", "Remove", "Tag", "Untag", "UpdateFunctionConfiguration"),
    *("UpdateGroup", "UpdateRole", "UpdateUser"),
)


@pytest.mark.usefixtures("server")
def test_deleting_a_part_of_a_bucket_that_is_not_kept_leaves_the_bucket(account: Account) -> None:
    s3 = account.client("s3")
    s3.create_bucket(Bucket="metrics-of-it")
    with pytest.raises(ClientError, match="DeleteBucketMetricsConfiguration"):
        s3.delete_bucket_metrics_configuration(Bucket="metrics-of-it", Id="all")
    assert [one["Name"] for one in s3.list_buckets()["Buckets"]] == ["metrics-of-it"]


def kept(service: str, account: str) -> str:
    """All that a service has of the account, as one text."""
    backends: Mapping[str, Any] = {
        "iam": iam_backends, "s3": s3_backends, "lambda": lambda_backends,
    }  # fmt: skip
    region = "us-east-1" if service == "lambda" else "aws"
    return _text(backends[service][account][region], set())


def _text(value: Any, seen: set[int]) -> str:
    if isinstance(value, str | bytes | int | float | bool | datetime | None):
        return repr(value)
    if id(value) in seen:
        return "seen"
    seen.add(id(value))
    if isinstance(value, Mapping):
        return str([(str(key), _text(item, seen)) for key, item in value.items()])
    if isinstance(value, list | tuple | set | frozenset):
        return str([_text(item, seen) for item in value])
    return _text(vars(value), seen) if hasattr(value, "__dict__") else type(value).__name__


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("service", sorted(SETUPS))
def test_what_succeeds_has_changed_something(account: Account, service: str) -> None:
    asked, model = client(account, service), service_model(service)
    begun = Asked(account, {})
    for which, operation, request in SETUPS[service]:
        begun._ask(which, operation, request)
    unchanged = []
    for operation in model.operation_names:
        if operation.startswith((*LOOKS, *NOTHING_TO_DO)):
            continue
        shape = model.operation_model(operation).input_shape
        before = kept(service, account.number)
        try:
            answer = asked._make_api_call(operation, least(shape) if shape else {})
        except ClientError:
            continue
        status = answer["ResponseMetadata"]["HTTPStatusCode"]
        if status < 300 and kept(service, account.number) == before:
            unchanged.append(operation)
    assert " ".join(unchanged) == ""
