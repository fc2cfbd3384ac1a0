"""Data capture: which requests are recorded, where, and what a record holds."""

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.sagemaker.stored_invocations import is_captured, store_capture

AT = datetime(2026, 11, 23, 9, 5, 7, 250_000)
CAPTURE = {
    "InitialSamplingPercentage": 100,
    "DestinationS3Uri": "s3://captured/prod/",
    "CaptureOptions": [{"CaptureMode": "Input"}],
}


class S3:
    """Takes one object, or fails."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails
        self.put: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        return SimpleNamespace(put_object=self._put)

    def _put(self, **given: Any) -> None:
        if self.fails:
            raise ClientError({"Error": {"Code": "NoSuchBucket"}}, "PutObject")
        self.put = given


def captured(s3: S3, headers: dict[str, str] | None = None, **capture: Any) -> dict[str, Any]:
    aws: Any = s3
    store_capture(
        aws,
        CAPTURE | capture,
        AT,
        endpoint="ranker",
        variant="primary",
        headers=headers or {},
        request=("application/json; charset=utf-8", b'{"a": 1}'),
        answer=("text/csv", b"1\n"),
    )
    return s3.put


def test_a_request_that_is_not_captured_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    captured(S3(fails=True))
    assert "cannot capture a request to ranker: " in capsys.readouterr().err


def test_a_record_is_stored_under_its_time_with_the_key_of_the_configuration() -> None:
    key = captured(S3())["Key"]
    assert key.startswith("prod/ranker/primary/2026/11/23/09/05-07-250-")
    for uri in ["s3://captured", "s3://captured/"]:
        assert captured(S3(), DestinationS3Uri=uri)["Key"].startswith("ranker/primary/")
    cases: list[tuple[dict[str, Any], tuple[str | None, str | None]]] = [
        ({}, (None, None)),
        ({"KmsKeyId": "key-1"}, ("aws:kms", "key-1")),
    ]
    for capture, encryption in cases:
        put = captured(S3(), **capture)
        assert (put.get("ServerSideEncryption"), put.get("SSEKMSKeyId")) == encryption


def record(**given: Any) -> Any:
    return json.loads(captured(S3(), **given)["Body"])


def test_a_record_has_its_request_s_attributes_and_the_captured_sides() -> None:
    metadata = record()["eventMetadata"]
    assert sorted(metadata) == ["eventId", "inferenceTime"]
    assert metadata["inferenceTime"] == "2026-11-23T09:05:07Z"
    names = ("X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-SageMaker-Inference-Id")
    metadata = record(headers=dict(zip(names, ("a=b", "order-42"), strict=True)))["eventMetadata"]
    assert (metadata["customAttributes"], metadata["inferenceId"]) == (["a=b"], "order-42")
    both = ["endpointInput", "endpointOutput"]
    for modes, sides in (
        (["Input"], both[:1]),
        (["Output"], both[1:]),
        (["Input", "Output"], both),
        (["InputAndOutput"], both),
    ):
        found = record(CaptureOptions=[{"CaptureMode": mode} for mode in modes])
        assert (list(found["captureData"]), found["eventVersion"]) == (sides, "0")


@pytest.mark.parametrize(
    ("listed", "data", "encoding"),
    [
        ({"JsonContentTypes": ["Application/JSON"]}, '{"a": 1}', "JSON"),
        ({"CsvContentTypes": ["application/json"]}, '{"a": 1}', "CSV"),
        ({"JsonContentTypes": ["text/csv"]}, "eyJhIjogMX0=", "BASE64"),
    ],
)
def test_a_side_is_text_only_where_its_content_type_is_listed(
    listed: dict[str, Any], data: str, encoding: str
) -> None:
    assert record(CaptureContentTypeHeader=listed)["captureData"]["endpointInput"] == {
        "observedContentType": "application/json; charset=utf-8",
        "mode": "INPUT",
        "data": data,
        "encoding": encoding,
    }


@pytest.mark.parametrize(
    ("capture", "drawn", "expected"),
    [
        ({}, 0.999, True),
        ({"EnableCapture": False}, 0.0, False),
        ({"InitialSamplingPercentage": 10}, 0.0999, True),
        ({"InitialSamplingPercentage": 10}, 0.1, False),
    ],
)
def test_a_request_is_captured_with_the_sampled_share(
    monkeypatch: pytest.MonkeyPatch, capture: dict[str, Any], drawn: float, expected: bool
) -> None:
    monkeypatch.setattr("random.random", lambda: drawn)
    assert is_captured(CAPTURE | capture) == expected
