"""The targets: a container by its address, or an endpoint behind SageMaker's InvokeEndpoint."""

import http.client
import json
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from servable.conformance.observed_cases import (
    ATTRIBUTES,
    NO_ANSWER,
    Case,
    ContainerSetup,
    ObservedAnswer,
)
from servable.conformance.prepare import MODELS, MODELS_PATH

LOCAL_SERVER = "servable-local-container"
"""The Server header of Servable's local container."""
_TIMEOUT_SECONDS = 60
_INVOCATIONS = re.compile(r"/endpoints/([A-Za-z0-9-]+)/invocations/?")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PARAMETERS = {
    "content-type": "ContentType",
    "accept": "Accept",
    ATTRIBUTES.lower(): "CustomAttributes",
}


class TargetError(Exception):
    """A target cannot be used. `str()` is a whole sentence that says what to do."""


class ContainerTarget:
    """A container, to which every case can be sent. `server`: its Server header."""

    server = ""
    is_local = False
    """Whether it is Servable's local container."""

    def __init__(self, url: str, models_path: str = MODELS_PATH) -> None:
        self.url = url.rstrip("/")
        self._models_path = models_path.rstrip("/")

    def connection(self) -> http.client.HTTPConnection:
        """Return a new connection."""
        parts = urlsplit(self.url)
        https = parts.scheme == "https"
        kind = http.client.HTTPSConnection if https else http.client.HTTPConnection
        return kind(parts.netloc, timeout=_TIMEOUT_SECONDS)

    def wait(self, seconds: float) -> None:
        """Return when it serves. Raises `TargetError` if that takes longer than `seconds`."""
        until = time.monotonic() + seconds
        while True:
            try:
                status, _ = self.send("GET", "/ping")
                if status == 200:
                    return
                reason = f"it answered /ping with {status}"
            except OSError as error:
                reason = str(error)
            except http.client.HTTPException as error:
                reason = f"it does not answer in HTTP ({error!r})"
            if time.monotonic() > until:
                raise TargetError(f"{self.url}: no container answers: {reason}; start it first")
            time.sleep(0.5)

    def status_of(self, path: str) -> int:
        """Return the status of a GET."""
        try:
            return self.send("GET", path)[0]
        except (OSError, http.client.HTTPException):
            return NO_ANSWER

    def unload_all(self) -> None:
        """Unload all models of a multi-model container, as the table begins. Raises `TargetError`."""
        try:
            for name in json.loads(self.send("GET", "/models")[1]):
                self.send("DELETE", f"/models/{name}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise TargetError(f"{self.url}: its models cannot be unloaded: {error!r}") from None

    def ask(self, case: Case) -> ObservedAnswer:
        """Send a case with its own headers, Host and Content-Length."""
        body = case.body.replace(f"{MODELS_PATH}/".encode(), f"{self._models_path}/".encode())
        connection = self.connection()
        try:
            connection.putrequest(case.method, case.path, skip_accept_encoding=True)
            for name, value in case.sent_headers.items():
                connection.putheader(name, value)
            if body or case.method in ("POST", "PUT"):
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            response = connection.getresponse()
            try:
                content = response.read()
            except http.client.IncompleteRead as cut:
                content = cut.partial
        except (OSError, http.client.HTTPException) as error:
            return ObservedAnswer(NO_ANSWER, None, repr(error).encode())
        finally:
            connection.close()
        self._note(response)
        headers = {name.lower(): value for name, value in response.getheaders()}
        content_type = response.getheader("Content-Type", "")
        return ObservedAnswer.of(response.status, content_type, content, headers)

    def send(
        self,
        method: str,
        path: str,
        json_body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body of its answer."""
        sent = {"Content-Type": "application/json"} if json_body else {}
        connection = self.connection()
        try:
            connection.request(method, path, json_body, {**sent, **(headers or {})})
            response = connection.getresponse()
            self._note(response)
            return response.status, response.read()
        finally:
            connection.close()

    def _note(self, response: http.client.HTTPResponse) -> None:
        self.server = response.getheader("Server") or self.server
        self.is_local = self.server == LOCAL_SERVER


class EndpointTarget:
    """A deployed endpoint, called by InvokeEndpoint with the shell's credentials."""

    server = ""

    def __init__(self, url: str, name: str, component: str | None = None) -> None:
        """`component`: the inference component that answers, for an endpoint that has some."""
        self.url = url
        self._named = {"EndpointName": name}
        if component is not None:
            self._named["InferenceComponentName"] = component
        parts = urlsplit(url)
        # runtime.sagemaker.REGION.amazonaws.com; another address leaves the region to the shell.
        region = re.match(r"runtime\.sagemaker\.([a-z0-9-]+)\.", parts.hostname or "")
        self._region = region[1] if region else None
        self._address = f"{parts.scheme}://{parts.netloc}"
        self.is_local = parts.hostname in _LOOPBACK  # the local AWS: local containers answer
        self._client: Any = None

    def wait(self, seconds: float) -> None:
        """Connect; an endpoint serves once it is deployed. Raises `TargetError`."""
        import boto3
        from botocore.exceptions import BotoCoreError

        try:
            self._client = boto3.client(
                "sagemaker-runtime", region_name=self._region, endpoint_url=self._address
            )
        except BotoCoreError as error:
            raise TargetError(f"{self.url}: {error}") from None

    def ask(self, case: Case) -> ObservedAnswer | None:
        """Return the answer; None if such a request cannot be sent to it. Raises `TargetError`."""
        from botocore.exceptions import BotoCoreError, ClientError

        headers = {name.lower(): value for name, value in case.sent_headers.items()}
        sendable = headers.keys() <= _PARAMETERS.keys() and "content-type" in headers
        if not sendable or (case.method, case.path) != ("POST", "/invocations"):
            return None
        parameters = {_PARAMETERS[name]: value for name, value in headers.items()}
        try:
            answer = self._client.invoke_endpoint(Body=case.body, **self._named, **parameters)
        except ClientError as error:
            response = error.response
            if "OriginalStatusCode" not in response:
                raise TargetError(f"{self.url}: {error}") from None
            body = str(response.get("OriginalMessage", "")).encode()
            return ObservedAnswer.of(response["OriginalStatusCode"], None, body)
        except BotoCoreError as error:
            raise TargetError(f"{self.url}: {error}") from None
        return ObservedAnswer.of(200, answer["ContentType"], answer["Body"].read())


Target = ContainerTarget | EndpointTarget


def target_at(url: str, *, models_path: str = MODELS_PATH, component: str | None = None) -> Target:
    """Return the target of a URL: http://HOST:PORT, or https://…/endpoints/NAME/invocations.

    `models_path`: the folder of the models in a multi-model container. `component`: of endpoints.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise TargetError(f"{url}: not an address; give http://HOST:PORT")
    endpoint = _INVOCATIONS.fullmatch(parts.path)
    if endpoint:
        return EndpointTarget(url, endpoint[1], component)
    if component is not None:
        raise TargetError(
            f"{url}: a container has no component {component!r}; leave --component out, or give an "
            "endpoint's address, https://runtime.sagemaker.REGION.amazonaws.com/endpoints/NAME/invocations"
        )
    return ContainerTarget(url, models_path)


def missing(target: Target, container: ContainerSetup) -> Iterator[str]:
    """Yield what the target lacks of the table's container, as far as it can be seen from outside."""
    if isinstance(target, EndpointTarget):
        for model in MODELS:
            case = next((case for case in container.cases if _succeeded(case, model)), None)
            answer = None if case is None else target.ask(case)
            if answer is not None and answer.status == 404:
                yield f"model {model}"
        return
    if container.is_multi_model:
        if target.status_of("/models") != 200:
            yield "multi-model mode"
        return
    for model in MODELS:
        if target.status_of(f"/tfs/v1/models/{model}") == 404:
            yield f"model {model}"
    # Without code NGINX asks for a content type, and with code a GET succeeds.
    status = target.status_of("/invocations")
    if container.code and status == 415:
        yield "code"
    if not container.code and status == 200:
        yield "an archive without code"


def _succeeded(case: Case, model: str) -> bool:
    return (case.model, case.answer.status, case.method) == (model, 200, "POST")
