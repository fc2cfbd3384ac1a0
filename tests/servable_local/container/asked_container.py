"""A container by its address, to which observed and other requests are sent."""

import http.client
import json
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from tests.servable_local.container.observed_cases import (
    NO_ANSWER,
    Case,
    ContainerSetup,
    ObservedAnswer,
)

MODELS_PATH = "/opt/ml/models"
"""Where SageMaker puts the models of multi-model mode."""
_TIMEOUT_SECONDS = 60


class AskedContainer:
    """A container that serves the models of the observed cases."""

    def __init__(self, url: str, models_path: str = MODELS_PATH) -> None:
        self.url = url.rstrip("/")
        self._models_path = models_path.rstrip("/")

    def connect(self) -> http.client.HTTPConnection:
        """Return a new connection."""
        return http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=_TIMEOUT_SECONDS)

    def ask(self, case: Case) -> ObservedAnswer:
        """Send a case with its own headers, Host and Content-Length."""
        body = case.body.replace(f"{MODELS_PATH}/".encode(), f"{self._models_path}/".encode())
        connection = self.connect()
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
            return ObservedAnswer(NO_ANSWER, "", repr(error).encode())
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return ObservedAnswer.of(response.status, headers.get("content-type", ""), content, headers)

    def ask_all(self, container: ContainerSetup) -> Iterator[tuple[Case, ObservedAnswer]]:
        """Send every case in its order, to a multi-model container without any loaded model."""
        if container.is_multi_model:
            for name in json.loads(self.send("GET", "/models")[1]):
                self.send("DELETE", f"/models/{name}")
        for case in container.cases:
            yield case, self.ask(case)

    def send(
        self,
        method: str,
        path: str,
        json_body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the response."""
        sent = {"Content-Type": "application/json"} if json_body else {}
        connection = self.connect()
        try:
            connection.request(method, path, json_body, {**sent, **(headers or {})})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()
