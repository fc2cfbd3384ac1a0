"""What a caller of InvokeEndpoint sends and gets."""

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account


@pytest.fixture(scope="module")
def ranker(embedded: LocalAws, launcher: Launcher) -> Account:
    """One for all who only ask."""
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"a")))
    return account


def _invoke(account: Account, body: bytes = b"x", **more: str) -> Any:
    runtime = account.client("sagemaker-runtime")
    return runtime.invoke_endpoint(EndpointName="ranker", Body=body, **more)


def _error(account: Account, body: bytes = b"x", **more: str) -> dict[str, Any]:
    with pytest.raises(ClientError) as caught:
        _invoke(account, body, **more)
    return dict(caught.value.response)


def test_the_container_gets_the_request_and_the_caller_its_answer(ranker: Account) -> None:
    body = bytes(range(256))
    answer = json.loads(_invoke(ranker, body)["Body"].read())
    assert answer["body"].encode("latin-1") == body
    assert _invoke(ranker)["ContentType"] == "application/json"
    assert _invoke(ranker)["CustomAttributes"] == "from=container"
    assert _invoke(ranker)["InvokedProductionVariant"] == "primary"

    answer = json.loads(_invoke(ranker, b"x", InferenceId="one")["Body"].read())
    headers = {key.lower(): value for key, value in answer["headers"].items()}
    assert headers["x-amzn-sagemaker-inference-id"] == "one"


@pytest.mark.parametrize(
    ("argument", "header"),
    [
        ("ContentType", "Content-Type"),
        ("Accept", "Accept"),
        ("CustomAttributes", "X-Amzn-SageMaker-Custom-Attributes"),
    ],
)
def test_the_container_gets_the_callers_header(ranker: Account, argument: str, header: str) -> None:
    answer = json.loads(_invoke(ranker, b"x", **{argument: "text/csv"})["Body"].read())
    assert {key.lower(): v for key, v in answer["headers"].items()}[header.lower()] == "text/csv"


@pytest.fixture(scope="module")
def refusing(embedded: LocalAws, launcher: Launcher) -> Account:
    account = Account(embedded, launcher)
    account.deploy(serving(account.put_archive(b"a"), variables={"STATUS": "400"}))
    return account


def test_a_containers_refusal_is_a_model_error(refusing: Account) -> None:
    assert _error(refusing)["Error"]["Code"] == "ModelError"
    assert _error(refusing)["ResponseMetadata"]["HTTPStatusCode"] == 424
    assert _error(refusing)["OriginalStatusCode"] == 400
    assert _error(refusing)["OriginalMessage"] == "the model says no"
    assert _error(refusing)["LogStreamArn"].endswith(":log-group:/aws/sagemaker/Endpoints/ranker")


def test_an_endpoint_that_is_not_there_is_refused_in_sagemakers_words(account: Account) -> None:
    said = _error(account)["Error"]
    assert said == {
        "Code": "ValidationError",
        "Message": f"Endpoint ranker of account {account.number} not found.",
    }


def test_a_body_has_at_most_6_291_456_bytes(ranker: Account) -> None:
    assert _invoke(ranker, b"x" * 6_291_456)["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert _error(ranker, b"x" * 6_291_457)["Error"]["Code"] == "ValidationError"


def test_an_endpoint_whose_file_acknowledges_more_takes_that_and_no_more(ranker: Account) -> None:
    sagemaker = ranker.client("sagemaker")
    arn = sagemaker.describe_endpoint(EndpointName="ranker")["EndpointArn"]
    name = "servable:request-bytes"
    sagemaker.add_tags(ResourceArn=arn, Tags=[{"Key": name, "Value": "6291457"}])
    try:
        assert _invoke(ranker, b"x" * 6_291_457)["ResponseMetadata"]["HTTPStatusCode"] == 200
        assert "6291457" in _error(ranker, b"x" * 6_291_458)["Error"]["Message"]
    finally:
        sagemaker.delete_tags(ResourceArn=arn, TagKeys=[name])


def test_what_sagemaker_refuses_is_said(ranker: Account) -> None:
    said = _error(ranker, b"x", CustomAttributes="a" * 1025)["Error"]
    assert said["Code"] == "ValidationError"
    assert "Value at 'customAttributes' failed to satisfy constraint" in said["Message"]
    said = _error(ranker, b"x", CustomAttributes="a" * 1025, InferenceId="i" * 65)["Error"]
    assert said["Message"].startswith("2 validation errors detected: ")

    said = _error(ranker, TargetVariant="absent")["Error"]
    wanted = f"Variant absent not found for endpoint ranker of account {ranker.number}."
    assert said == {"Code": "ValidationError", "Message": wanted}
    assert (
        "not a multi-model endpoint" in _error(ranker, TargetModel="a.tar.gz")["Error"]["Message"]
    )
