"""InvokeEndpoint and InvokeEndpointAsync through boto3, which signs and pools connections.

Requests and responses of asynchronous inferences are in S3. Writing the same request twice and
reading are harmless. So every failure there can be retried, and none has called the model.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from botocore import awsrequest, exceptions
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, IncompleteReadError
from urllib3.exceptions import HTTPError

from servable_client.errors import (
    BadInputError,
    BusyError,
    ConnectionLostError,
    JobFailedError,
    ModelFailedError,
    NotAllowedError,
    PredictionError,
    UnreachableError,
)
from servable_client.exchange import Answer, Deadline, Job, Request, read_body
from servable_client.forks import CLIENT_CREATION, initialize_in_each_process
from servable_client.retries import (
    ATTEMPT,
    build_connection_error,
    build_observed_pool,
    build_sagemaker_error,
)

# Without the permission to list a bucket, what is not there yet is forbidden.
_NOT_YET = ("NoSuchKey", "404", "AccessDenied", "403")
_LATER = ("SlowDown", "Throttling", "RequestTimeout", "InternalError", "ServiceUnavailable")
# What botocore and urllib3 say of a connection; the rest is about settings and credentials.
CONNECTION_ERRORS = (ConnectionError, HTTPClientError, IncompleteReadError, HTTPError)
_SHOWN = 2000
# How long one look may take; a job is looked at again.
LOOK_SECONDS = 20.0


def _build_store_error(message: str, error: ClientError) -> PredictionError:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if error.response["Error"]["Code"] in _LATER or status == 429 or (status or 0) >= 500:
        return BusyError(message, status=status)
    return NotAllowedError(message, status=status)


def _split_location(location: str) -> tuple[str, str]:
    bucket, _, key = location.removeprefix("s3://").partition("/")
    if not location.startswith("s3://") or not bucket or not key:
        raise BadInputError(f"{location} isn't an S3 location such as s3://bucket/prefix/")
    return bucket, key


# Enough for two lost packets of a handshake.
CONNECT_TIMEOUT_SECONDS = 5.0
_POOLS = {
    "http": build_observed_pool(awsrequest.AWSHTTPConnectionPool),
    "https": build_observed_pool(awsrequest.AWSHTTPSConnectionPool),
}
_NO_CREDENTIALS = (
    exceptions.NoCredentialsError, exceptions.PartialCredentialsError,
    exceptions.CredentialRetrievalError, exceptions.TokenRetrievalError,
    exceptions.UnauthorizedSSOTokenError,
)  # fmt: skip


class SageMakerRuntime:
    """The transport to one endpoint. boto3 clients are created on first use, in each process."""

    def __init__(
        self,
        endpoint: str,
        *,
        region: str | None,
        session: Any,
        endpoint_url: str | None,
        connections: int,
        timeout_seconds: float,
    ) -> None:
        self._endpoint = endpoint
        self._session = session
        self._client_settings = {"region_name": region, "endpoint_url": endpoint_url}
        self._config = Config(
            # One attempt: what boto3 would repeat by itself may have been executed.
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=connections,
            connect_timeout=min(CONNECT_TIMEOUT_SECONDS, timeout_seconds),
            tcp_keepalive=True,
            # A tenth of a call's CPU; what we pass is ours and of the right types.
            parameter_validation=False,
        )
        initialize_in_each_process(self)

    def _initialize_process_state(self) -> None:
        self._clients: dict[str, Any] = {}
        self._observed = True
        self._attempt = threading.local()

    def send(self, request: Request, *, seconds: float) -> Answer:
        with self._convert_errors(seconds):
            deadline = Deadline(seconds)
            selection = request.selection
            parameters = self._build_parameters(
                request,
                TargetVariant=selection.variant,
                TargetModel=selection.target_model,
                InferenceComponentName=selection.component,
            )
            answer = self._open_client().invoke_endpoint(Body=request.body, **parameters)
            headers = answer["ResponseMetadata"]["HTTPHeaders"]
            return Answer(
                body=read_body(answer["Body"], headers, deadline),
                content_type=answer.get("ContentType", ""),
                variant=answer.get("InvokedProductionVariant"),
            )

    def submit(self, request: Request, *, seconds: float, upload_to: str | None) -> Job:
        if upload_to is None:
            raise BadInputError(
                "submit() uploads the request to S3: pass upload_to, such as s3://bucket/prefix/, "
                "which the endpoint's role can read"
            )
        if request.selection.variant or request.selection.target_model:
            problem = "an asynchronous endpoint doesn't support variant and target_model; omit them"
            raise BadInputError(problem)
        with self._convert_errors(seconds):
            self._open_client()
            self._write_request(upload_to, request)
            # From here on: what was written until now went to S3.
            client, parameters = self._open_client(), self._build_parameters(request)
            accepted = client.invoke_endpoint_async(InputLocation=upload_to, **parameters)
            output, failure = accepted["OutputLocation"], accepted.get("FailureLocation")
            return Job(
                inference_id=accepted["InferenceId"],
                output_location=output,
                failure_location=failure,
                look=lambda: self._read_response(output, failure),
            )

    def close(self) -> None:
        with CLIENT_CREATION:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _build_parameters(self, request: Request, **optional: str | None) -> dict[str, Any]:
        optional["CustomAttributes"] = request.custom_attributes
        optional["InferenceId"] = request.inference_id
        return {
            "EndpointName": self._endpoint,
            "ContentType": request.content_type,
            "Accept": request.accept,
            **{name: value for name, value in optional.items() if value},
        }

    def _open_client(self, service: str = "sagemaker-runtime") -> Any:
        client = self._clients.get(service)
        if client is None:
            with CLIENT_CREATION:  # making a boto3 client is not thread-safe, using one is
                if (client := self._clients.get(service)) is None:
                    maker = self._session or boto3.session.Session()
                    settings = {**self._client_settings}
                    if service == "s3":
                        del settings["endpoint_url"]
                    client = maker.client(service, config=self._config, **settings)
                    # How long this attempt may take; the configuration's is for all requests.
                    event = f"provide-client-params.{service}.*"
                    client.meta.events.register(event, self._set_timeout)
                    self._observed = observe(client) and self._observed
                    self._clients[service] = client
        ATTEMPT.written = not self._observed
        return client

    def _write_request(self, location: str, request: Request) -> None:
        """Write a request to S3, without which the model isn't called.

        Raises `BadInputError`, `NotAllowedError`, `BusyError`, `UnreachableError`.
        """
        bucket, key = _split_location(location)
        s3, content_type = self._open_client("s3"), request.content_type
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=request.body, ContentType=content_type)
        except ClientError as error:
            raise _build_store_error(f"{location}: cannot be written: {error}", error) from None
        except CONNECTION_ERRORS as error:
            raise UnreachableError(f"{location}: cannot be written: {error}") from None

    def _read_response(self, output: str, failure: str | None) -> Answer | None:
        """Return the response, or None while there is none.

        Raises `JobFailedError`; `BusyError` and `ConnectionLostError` if another attempt may
        succeed.
        """
        if answer := self._read_object(output):
            return answer
        if failure and (failed := self._read_object(failure)):
            raise JobFailedError(f"{failure}: {failed.body[:_SHOWN].decode(errors='replace')}")
        return None

    def _read_object(self, location: str) -> Answer | None:
        bucket, key = _split_location(location)
        s3, self._attempt.seconds = self._open_client("s3"), LOOK_SECONDS
        try:
            content = s3.get_object(Bucket=bucket, Key=key)
            return Answer(body=content["Body"].read(), content_type=content["ContentType"])
        except ClientError as error:
            if error.response["Error"]["Code"] in _NOT_YET:
                return None
            refusal = _build_store_error(f"{location}: cannot be read: {error}", error)
            refusal.executed = "maybe"
            raise refusal from None
        except CONNECTION_ERRORS as error:
            problem = f"{location}: cannot be read: {error}; the job continues"
            raise ConnectionLostError(problem) from None

    def _set_timeout(self, context: dict[str, Any], **_: Any) -> None:
        context["read_timeout"] = self._attempt.seconds

    @contextmanager
    def _convert_errors(self, seconds: float) -> Iterator[None]:
        self._attempt.seconds = seconds
        ATTEMPT.written = False
        try:
            yield
        except exceptions.ClientError as error:
            failure = build_sagemaker_error(self._endpoint, error.response)
            if not ATTEMPT.written:
                failure.executed = "no"  # the response is from STS or SSO, which give credentials
            raise failure from None
        except _NO_CREDENTIALS as error:
            raise NotAllowedError(f"{self._endpoint}: {error}; see `aws configure`") from None
        except CONNECTION_ERRORS as error:
            late = isinstance(error, exceptions.ReadTimeoutError)
            raise build_connection_error(self._endpoint, error, seconds, timed_out=late) from None
        except exceptions.BotoCoreError as error:
            if ATTEMPT.written:
                problem = f"{self._endpoint}: the response is not from SageMaker: {error}"
                raise ModelFailedError(problem) from None
            raise BadInputError(f"{self._endpoint}: {error}; pass region or session") from None


def observe(client: Any) -> bool:
    """Observe this boto3 client's connections; return False if botocore doesn't allow it.

    botocore has no public access to its connections. If they can't be observed, every failure
    counts as one after which the request may have been executed.
    """
    try:
        client._endpoint.http_session._pool_classes_by_scheme.update(_POOLS)
        return (
            client._endpoint.http_session._manager.pool_classes_by_scheme["https"]
            is _POOLS["https"]
        )
    except (AttributeError, KeyError, TypeError):
        return False
