"""What fails where nobody waits for an answer is printed, and nothing else fails with it."""

import json
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.loopback import Access, Loopback
from servable_local.aws.sagemaker.container import (
    Container,
    VariantStartError,
    launch_local_container,
)
from servable_local.aws.sagemaker.stored_invocations import is_captured, store_capture
from servable_local.container import launch

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


# --- data capture


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


def test_a_record_has_the_attributes_of_its_request() -> None:
    listed = {"JsonContentTypes": ["Application/JSON"]}
    side = record(CaptureContentTypeHeader=listed)["captureData"]["endpointInput"]
    assert (side["data"], side["encoding"]) == ('{"a": 1}', "JSON")

    metadata = record()["eventMetadata"]
    assert sorted(metadata) == ["eventId", "inferenceTime"]
    assert metadata["inferenceTime"] == "2026-11-23T09:05:07Z"

    names = ("X-Amzn-SageMaker-Custom-Attributes", "X-Amzn-SageMaker-Inference-Id")
    metadata = record(headers=dict(zip(names, ("a=b", "order-42"), strict=True)))["eventMetadata"]
    assert (metadata["customAttributes"], metadata["inferenceId"]) == (["a=b"], "order-42")


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


# --- events


def test_an_event_that_event_bridge_does_not_take_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuses(self: Any, service: str, **whose: str) -> Any:
        raise OSError("closed")

    monkeypatch.setattr(Access, "client", refuses)
    aws = Loopback(Access("http://127.0.0.1:1", "secret"), account="1" * 12, region="eu-west-1")
    aws.send_event(source="s", kind="State Change", detail={}, resources=["a", "b"], at=AT)
    printed = capsys.readouterr().err
    assert "EventBridge did not accept State Change of a, b" in printed
    assert "OSError: closed" in printed


# --- containers


class Process:
    """A process of no container."""

    url = "http://127.0.0.1:9"

    def __init__(self, **more: Any) -> None:
        self.closed = False
        vars(self).update(more)

    def close(self) -> None:
        self.closed = True


def test_a_container_has_what_its_process_has() -> None:
    faults = object()
    assert Container(lambda: Process(faults=faults)).faults is faults
    container = Container(Process)
    assert (container.pid, container.folder) == (None, None)
    with pytest.raises(ValueError, match="does not support fault injection"):
        Container(Process).faults  # noqa: B018


def test_a_container_is_launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fails(*given: Any, **more: Any) -> Any:
        raise launch.LaunchError("no ping")

    monkeypatch.setattr(launch, "launch", fails)
    with pytest.raises(VariantStartError, match="^no ping$"):
        launch_local_container(None, {})

    monkeypatch.setattr(launch, "launch", lambda *given, **more: (given, more))
    given: Any = launch_local_container(tmp_path, {"A": "1"}, ready_timeout_seconds=5, log=tmp_path)
    assert given == ((tmp_path, {"A": "1"}), {"ready_timeout_seconds": 5, "log": tmp_path})


# --- controls
