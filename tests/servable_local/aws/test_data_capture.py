"""What data capture keeps of a request to the local AWS."""

import json
import time
from typing import Any

import pytest

from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

TRACED = "tfs-model-version=1,inference-id=order-42"
CAPTURE = {
    "EnableCapture": True,
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": "s3://captured/prod",
    "CaptureOptions": [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}],
    "CaptureContentTypeHeader": {"CsvContentTypes": ["text/csv"]},
}


@pytest.fixture(scope="module")
def account(embedded: LocalAws, launcher: Launcher) -> Account:
    return Account(embedded, launcher)


@pytest.fixture(scope="module")
def captured(account: Account) -> tuple[str, dict[str, Any]]:
    """Key and record of the only request."""
    s3 = account.client("s3")
    s3.create_bucket(Bucket="captured")
    template = serving(account.put_archive(b"a"))
    template["Resources"]["Config"]["Properties"]["DataCaptureConfig"] = CAPTURE
    account.deploy(template)
    account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="ranker",
        Body=b"1,2",
        ContentType="text/csv",
        CustomAttributes=TRACED,
        InferenceId="order-42",
    )
    while not (listed := s3.list_objects_v2(Bucket="captured").get("Contents")):
        time.sleep(0.01)
    (key,) = [one["Key"] for one in listed]
    body = s3.get_object(Bucket="captured", Key=key)["Body"].read()
    return key, json.loads(body)


def test_the_record_has_its_request_and_answer(captured: tuple[str, dict[str, Any]]) -> None:
    assert captured[1]["eventMetadata"]["inferenceId"] == "order-42"
    assert captured[1]["eventMetadata"]["customAttributes"] == [TRACED]
    expected = {
        "observedContentType": "text/csv",
        "mode": "INPUT",
        "data": "1,2",
        "encoding": "CSV",
    }
    assert captured[1]["captureData"]["endpointInput"] == expected
    assert captured[1]["captureData"]["endpointOutput"]["encoding"] == "BASE64"
    folders = captured[0].split("/")
    assert (folders[:3], len(folders)) == (["prod", "ranker", "primary"], 8)


@pytest.mark.usefixtures("captured")
def test_the_endpoint_says_that_it_captures(account: Account) -> None:
    found = account.client("sagemaker").describe_endpoint(EndpointName="ranker")
    assert found["DataCaptureConfig"]["CaptureStatus"] == "Started"
