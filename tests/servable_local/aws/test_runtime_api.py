"""An invocation inside the runtime API: who is asked, what is counted, told, and captured. No server runs."""

import http.client
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.cloudwatch.metric_store import MetricStore
from servable_local.aws.errors import ValidationError
from servable_local.aws.loopback import load_service_model
from servable_local.aws.sagemaker import runtime_api
from servable_local.aws.sagemaker.endpoint import Route
from servable_local.aws.sagemaker.runtime_api import LARGEST_BODY_BYTES, RuntimeApi
from servable_local.aws.sagemaker.stored_invocations import is_captured, store_capture
from servable_scaling.alarms.query import Metric, Samples

OF = {"EndpointName": "ranker", "VariantName": "primary"}
CUSTOM = "X-Amzn-SageMaker-Custom-Attributes"
TARGET_MODEL = "X-Amzn-SageMaker-Target-Model"


class Container:
    """Answers what it is told, after `seconds` of the clock; remembers what it was asked."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.status, self.seconds, self.answer = 200, 0.0, b"answer"
        self.headers = {"Content-Type": "text/csv"}
        self.error: Exception | None = None
        self.healed = 0
        self.requests: list[tuple[str, bytes, dict[str, str]]] = []

    def post(
        self, path: str, body: bytes, headers: Mapping[str, str], *, timeout_seconds: float
    ) -> Any:
        assert timeout_seconds == 60
        self.requests.append((path, body, dict(headers)))
        self.clock.pause(self.seconds)
        if self.error is not None:
            raise self.error
        return self.status, self.headers, self.answer

    def restart_if_ended(self) -> None:
        self.healed += 1


class Case:
    """The endpoint `ranker` of one variant, and what its one container was asked."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.container, self.shadow = Container(self.clock), Container(self.clock)
        self.variant = self._variant("primary", self.container)
        self.route = Route(self.variant, None)
        self.endpoint: Any = SimpleNamespace(
            name="ranker", arn="arn:ranker", kind="real_time", config={}, capture=None,
            overhead_seconds=0.0, choose_route=self._choose_route,
        )  # fmt: skip
        self.here: Any = SimpleNamespace(
            clock=self.clock, cloudwatch=SimpleNamespace(metrics=MetricStore()), tags={},
            aws=SimpleNamespace(account="123456789012", region="eu-west-1"),
            endpoints={"ranker": self.endpoint},
        )  # fmt: skip

    @staticmethod
    def _variant(name: str, container: Container) -> Any:
        instances = SimpleNamespace(serving_count=2, pick=lambda: container)
        rest = {"models": None, "placement": None, "choose_instance_type": lambda: None}
        return SimpleNamespace(name=name, instances=instances, **rest)

    def _choose_route(self, variant: str | None) -> Route | None:
        if variant not in (None, "primary"):
            raise KeyError(variant)
        return self.route

    def with_shadow(self) -> None:
        self.route = Route(self.variant, None, self._variant("shadow", self.shadow))

    def api(self, body: bytes = b"x", name: str = "ranker", **headers: str) -> RuntimeApi:
        here = self.here

        class Asked(RuntimeApi):
            def __init__(self) -> None:
                self.raw_body = body
                self.path = f"/endpoints/{name}/invocations"
                self.headers = {key.replace("_", "-"): value for key, value in headers.items()}

            @property
            def hosting(self) -> Any:
                return here

        return Asked()

    def invoke(self, body: bytes = b"x", **headers: str) -> tuple[int, dict[str, Any], Any]:
        status, shown, answer = self.api(body, **headers).invoke_endpoint()
        return status, dict(shown), answer

    def refusal(self, call: str = "invoke_endpoint", **given: Any) -> str:
        with pytest.raises(ValidationError) as caught:
            getattr(self.api(**given), call)()
        return str(caught.value.message)

    def samples(self, name: str, **dimensions: str) -> Samples:
        now, minute = self.clock.now(), timedelta(minutes=1)
        metric = Metric.from_dimensions("AWS/SageMaker", name, OF | dimensions)
        store: MetricStore = self.here.cloudwatch.metrics
        return store.collect_samples(metric, now - minute, now + minute)


@pytest.fixture
def case(monkeypatch: pytest.MonkeyPatch) -> Case:
    """What would happen in the background happens at once."""
    monkeypatch.setattr(runtime_api, "_run_in_background", lambda work, name: work())
    return Case()


def test_the_containers_answer_is_the_callers(case: Case) -> None:
    headers = {"Content-Type": "text/csv", "x-Amzn-Invoked-Production-Variant": "primary"}
    assert case.invoke() == (200, {"status": 200, **headers}, b"answer")
    assert case.api(name="RANKER").invoke_endpoint()[0] == 200
    case.container.headers[CUSTOM] = "a=b"
    assert case.invoke()[1][CUSTOM] == "a=b"
    case = Case()
    case.invoke(Accept="text/csv", Content_Type="", Authorization="secret")
    assert case.container.requests == [("/invocations", b"x", {"Accept": "text/csv"})]


@pytest.mark.parametrize(
    ("status", "who"),
    [
        (200, None), (299, None), (199, "server"), (300, "server"), (399, "server"),
        (400, "client"), (404, "client"), (499, "client"), (500, "server"),
    ],
)  # fmt: skip
def test_any_answer_but_2xx_is_a_model_error_that_says_who_is_at_fault(
    case: Case, status: int, who: str | None
) -> None:
    case.container.status, case.container.answer = status, b"no"
    answered, _, body = case.invoke()
    assert answered == (424 if who else 200)
    if who:
        error = json.loads(body)
        said = f'Received {who} error ({status}) from primary with message "no".'
        assert error["Message"].startswith(said)
        assert error["OriginalStatusCode"] == status


def test_a_container_that_takes_too_long_is_an_error_without_a_status(case: Case) -> None:
    case.container.error = TimeoutError()
    error = json.loads(case.invoke()[2])
    assert (error["OriginalStatusCode"], case.container.healed) == (0, 0)
    assert error["OriginalMessage"].startswith("Your invocation timed out while waiting")


@pytest.mark.parametrize("error", [ConnectionResetError("reset"), http.client.BadStatusLine("x")])
def test_a_container_that_hangs_up_is_looked_after(case: Case, error: Exception) -> None:
    case.container.error = error
    status, _, answer = case.invoke()
    assert (status, case.container.healed) == (424, 1)
    assert "The container closed the connection" in json.loads(answer)["OriginalMessage"]


# --- shadows
def test_a_shadow_is_asked_and_measured(case: Case) -> None:
    case.with_shadow()
    case.shadow.answer, case.shadow.status = b"another", 500
    case.shadow.seconds = case.endpoint.overhead_seconds = 0.5
    assert case.invoke(b"body", Accept="text/csv")[2] == b"answer"
    request = ("/invocations", b"body", {"Accept": "text/csv"})
    assert case.shadow.requests == case.container.requests == [request]
    names, metric = ("primary", "shadow"), "Invocation5XXErrors"
    assert [case.samples(metric, VariantName=name).total for name in names] == [0, 1]
    assert case.samples("OverheadLatency", VariantName="shadow").total == 0
    case.shadow.error = ConnectionResetError("reset")
    assert case.invoke()[2] == b"answer"


# --- many models
@pytest.mark.parametrize(("status", "forgotten"), [(404, ["a"]), (403, []), (200, [])])
def test_a_target_that_the_container_does_not_have_is_loaded_again_next_time(
    case: Case, status: int, forgotten: list[str]
) -> None:
    case.variant.models = Mock(prepare_path="/models/{}/invoke".format)
    case.container.status = status
    case.invoke(b"x", **{TARGET_MODEL: "a"})
    assert [each.args[0] for each in case.variant.models.mark_unloaded.mock_calls] == forgotten
    assert case.container.requests[0][0] == "/models/a/invoke"
    assert case.refusal().endswith("pass TargetModel.")


def test_an_endpoint_that_does_not_fit_is_named(case: Case) -> None:
    """test_invoke.py has the messages of one of another kind."""
    assert case.refusal(**{TARGET_MODEL: "a"}).endswith("it does not accept TargetModel.")
    message = "Endpoint absent of account 123456789012 not found."
    assert case.refusal(name="absent") == message
    case.endpoint.choose_route = lambda variant: None
    assert case.refusal() == "Endpoint ranker of account 123456789012 not found."


def test_a_queued_request_has_its_form(case: Case) -> None:
    case.endpoint.config = {"AsyncInferenceConfig": {}}
    operation = load_service_model("sagemaker-runtime").operation_model("InvokeEndpointAsync")
    most = operation.input_shape.members["Body"].metadata["max"]
    message = case.refusal("invoke_endpoint_async", body=bytes(most + 1))
    said = "1 validation error detected: Value at 'body' failed to satisfy constraint: Member must"
    assert message == f"{said} have length less than or equal to {most}"
    for location in ({}, {"X-Amzn-SageMaker-InputLocation": "https://b/k"}):
        message = case.refusal("invoke_endpoint_async", body=b"", **location)
        assert message.startswith("InputLocation must be an S3 URI")


@pytest.mark.parametrize(
    ("tag", "largest"), [("100", 100), ("many", LARGEST_BODY_BYTES), ("-1", LARGEST_BODY_BYTES)]
)
def test_a_body_is_as_long_as_the_tag_allows(case: Case, tag: str, largest: int) -> None:
    case.here.tags["arn:ranker"] = {runtime_api.REQUEST_BYTES_TAG: tag}
    assert case.api(bytes(largest)).invoke_endpoint()[0] == 200
    assert "Value at 'body'" in case.refusal(body=bytes(largest + 1))


# --- data capture
@pytest.mark.parametrize(
    ("percent", "status", "count"), [(100, 200, 1), (0, 200, 0), (100, 500, 0)]
)
def test_an_answer_is_captured_where_it_is_of_the_sample_and_no_error(
    case: Case, monkeypatch: pytest.MonkeyPatch, percent: int, status: int, count: int
) -> None:
    captured: list[dict[str, Any]] = []
    monkeypatch.setattr(runtime_api, "store_capture", lambda *_, **given: captured.append(given))
    case.endpoint.capture = {"InitialSamplingPercentage": percent}
    case.container.status = status
    case.invoke(b"1,2", Content_Type="text/csv")
    sides = [(given["request"], given["answer"]) for given in captured]
    assert sides == [(("text/csv", b"1,2"), ("text/csv", b"answer"))] * count


AT = datetime(2026, 11, 23, 9, 5, 7, 250_000)
CAPTURE = {"InitialSamplingPercentage": 100, "DestinationS3Uri": "s3://captured/prod/",
           "CaptureOptions": [{"CaptureMode": "Input"}]}  # fmt: skip


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
        aws, CAPTURE | capture, AT, endpoint="ranker", variant="primary", headers=headers or {},
        request=("application/json; charset=utf-8", b'{"a": 1}'), answer=("text/csv", b"1\n"),
    )  # fmt: skip
    return s3.put


def test_a_request_that_is_not_captured_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    captured(S3(fails=True))
    assert "cannot capture a request to ranker: " in capsys.readouterr().err


def test_a_record_is_stored_under_its_time_with_the_key_of_the_configuration() -> None:
    key = captured(S3())["Key"]
    assert key.startswith("prod/ranker/primary/2026/11/23/09/05-07-250-")
    for uri in ["s3://captured", "s3://captured/"]:
        assert captured(S3(), DestinationS3Uri=uri)["Key"].startswith("ranker/primary/")
    assert not {"ServerSideEncryption", "SSEKMSKeyId"} & {*captured(S3())}
    put = captured(S3(), KmsKeyId="key-1")
    assert (put["ServerSideEncryption"], put["SSEKMSKeyId"]) == ("aws:kms", "key-1")


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
    captures = {"Input": both[:1], "Output": both[1:], "Input Output": both, "InputAndOutput": both}
    for modes, sides in captures.items():
        found = record(CaptureOptions=[{"CaptureMode": mode} for mode in modes.split()])
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
    side = record(CaptureContentTypeHeader=listed)["captureData"]["endpointInput"]
    of = {"observedContentType": "application/json; charset=utf-8", "mode": "INPUT"}
    assert side == of | {"data": data, "encoding": encoding}


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
