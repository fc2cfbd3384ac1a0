"""Every operation of a service is answered in its protocol, and none with a success without an effect."""

import contextlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto.awslambda.models import lambda_backends
from moto.iam.models import ManagedPolicy, iam_backends
from moto.s3.models import s3_backends

from servable_local.aws.loopback import load_service_model
from servable_local.aws.server import Server
from tests.servable_local.aws.local_account import TRUST, Account
from tests.servable_local.aws.test_aws_answers import Asked, client

pytestmark = pytest.mark.long


SERVICES = "application-autoscaling cloudformation cloudwatch ecr events iam kms lambda logs s3"
SERVICES += " sagemaker sagemaker-runtime sns sqs ssm sts"


def least(shape: Any, depth: int = 0) -> Any:
    """The least that a shape allows: required members, with something in them."""
    match shape.type_name:
        case "structure":
            wanted = shape.required_members if depth < 4 else ()
            return {name: least(shape.members[name], depth + 1) for name in wanted}
        case "list":
            return [least(shape.member, depth + 1)]
        case "map":
            return {"a": "b"}
        case "string":
            return shape.enum[0] if shape.enum else "absent"
        case "boolean":
            return False
        case "timestamp" | "integer" | "long" | "float" | "double":
            return 60
    return b"x"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("service", SERVICES.split())
def test_what_is_not_done_says_so_with_its_name(account: Account, service: str) -> None:
    asked, model = client(account, service), load_service_model(service)
    unnamed = {}
    for operation in model.operation_names:
        shape = model.operation_model(operation).input_shape
        try:
            answer = asked._make_api_call(operation, least(shape) if shape else {})
            with contextlib.suppress(KeyError, AttributeError):
                answer["Body"].close()
        except ClientError as refused:
            answer, error = refused.response, refused.response["Error"]
            message = f"{error.get('Code')}: {error.get('Message', '')}"
            named = message.startswith("NotImplemented: the local AWS failed on")
            if answer["ResponseMetadata"]["HTTPStatusCode"] >= 500 and not named:
                unnamed[operation] = message[:200]
    assert unnamed == {}


@pytest.mark.parametrize(
    ("service", "operation"),
    [
        ("sagemaker", "CreateTrainingJob"),
        ("sagemaker", "CreateProcessingJob"),
        ("sagemaker", "CreateNotebookInstance"),
        ("sagemaker-runtime", "InvokeEndpointWithResponseStream"),
        ("ssm", "SendCommand"),
        ("ssm", "DeregisterPatchBaselineForPatchGroup"),
        ("lambda", "Invoke"),
        ("ecr", "StartImageScan"),
    ],
)
def test_what_would_have_no_effect_is_not_implemented(
    account: Account, server: Server, service: str, operation: str
) -> None:
    shape = load_service_model(service).operation_model(operation).input_shape
    with pytest.raises(ClientError) as refused:
        client(account, service)._make_api_call(operation, least(shape))
    answer = refused.value.response
    found = answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]
    assert found == (501, "NotImplemented")


@pytest.mark.usefixtures("server")
def test_what_is_not_there_is_refused_with_the_code_of_botocore_s_model(account: Account) -> None:
    with pytest.raises(ClientError) as refused:
        client(account, "ssm")._make_api_call("GetParameterHistory", {"Name": "gone"})
    assert refused.value.response["Error"]["Code"] == "ParameterNotFound"


NAME = "absent"  # of `least`
LOOKS = ("Get", "List", "Head", "Describe", "Simulate", "Select", "Generate")
FUNCTION = {"FunctionName": NAME, "Role": "arn:aws:iam::$ACCOUNT:role/absent", "Handler": "i.h",
            "Runtime": "python3.12", "Code": {"ZipFile": "$ZIP"}}  # fmt: skip
ROLE = ["iam", "CreateRole", {"RoleName": NAME, "AssumeRolePolicyDocument": TRUST}]
SETUPS: dict[str, list[Any]] = {
    "iam": [
        ROLE,
        ["iam", "CreateUser", {"UserName": NAME}],
        ["iam", "CreateGroup", {"GroupName": NAME}],
        ["iam", "CreateInstanceProfile", {"InstanceProfileName": NAME}],
    ],
    "s3": [
        ["s3", "CreateBucket", {"Bucket": NAME}],
        ["s3", "PutObject", {"Bucket": NAME, "Key": NAME, "Body": "x"}],
    ],
    "lambda": [ROLE, ["lambda", "CreateFunction", FUNCTION]],
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
    backends: Any = {"iam": iam_backends, "s3": s3_backends, "lambda": lambda_backends}
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
    # AWS's own policies are 1,300, and whoever attaches one changes more than it.
    if isinstance(value, ManagedPolicy) and value.arn.startswith("arn:aws:iam::aws:"):
        return str(value.arn)
    return _text(vars(value), seen) if hasattr(value, "__dict__") else type(value).__name__


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("service", sorted(SETUPS))
def test_what_succeeds_has_changed_something(account: Account, service: str) -> None:
    asked, model = client(account, service), load_service_model(service)
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
