"""Every operation of a service is answered in its protocol, and none with a success without an effect."""

import contextlib
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.loopback import service_model
from servable_local.aws.server import Server
from tests.servable_local.aws.aws_answers import client
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long
SERVICES = (
    "application-autoscaling",
    "cloudformation",
    "cloudwatch",
    "ecr",
    "events",
    "iam",
    "kms",
    "lambda",
    "logs",
    "s3",
    "sagemaker",
    "sagemaker-runtime",
    "sns",
    "sqs",
    "ssm",
    "sts",
)


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


def answers(account: Account, service: str) -> dict[str, tuple[int, str]]:
    """{operation: status and message}."""
    asked, model = client(account, service), service_model(service)
    found = {}
    for operation in model.operation_names:
        shape = model.operation_model(operation).input_shape
        try:
            answer, message = asked._make_api_call(operation, least(shape) if shape else {}), ""
        except ClientError as refused:
            answer, message = refused.response, refused.response["Error"].get("Message", "")
            message = f"{refused.response['Error'].get('Code')}: {message}"
        found[operation] = (answer["ResponseMetadata"]["HTTPStatusCode"], message)
        with contextlib.suppress(KeyError, AttributeError):
            answer["Body"].close()
    return found


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("service", SERVICES)
def test_what_is_not_done_says_so_with_its_name(account: Account, service: str) -> None:
    unnamed = {
        operation: (status, message[:200])
        for operation, (status, message) in answers(account, service).items()
        if status >= 500 and not message.startswith("NotImplemented: the local AWS failed on")
    }
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
    shape = service_model(service).operation_model(operation).input_shape
    with pytest.raises(ClientError) as refused:
        client(account, service)._make_api_call(operation, least(shape))
    answer = refused.value.response
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]) == (
        501,
        "NotImplemented",
    )


# What is not there is refused with the code that botocore's model has for it.
MISSING = [
    ("logs", "DescribeMetricFilters", {"logGroupName": "gone"}, "ResourceNotFoundException"),
    ("ssm", "GetParameterHistory", {"Name": "gone"}, "ParameterNotFound"),
]


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(("service", "operation", "request_", "code"), MISSING)
def test_what_is_not_there_is_neither_changed_nor_taken_away_with_success(
    account: Account, service: str, operation: str, request_: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError) as refused:
        client(account, service)._make_api_call(operation, request_)
    assert refused.value.response["Error"]["Code"] == code
