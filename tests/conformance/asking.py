"""Requests to an endpoint under test."""

import json
import os
import time
from collections.abc import Callable
from typing import Any

import psutil
import requests

ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"


def eventually(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Whether it holds within these seconds."""
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def listening(pid: int) -> list[tuple[str, int]]:
    """Addresses on which one process listens, by port."""
    connections = psutil.Process(pid).net_connections("inet")
    found = [one.laddr for one in connections if one.status == "LISTEN"]
    return sorted(((str(one.ip), int(one.port)) for one in found), key=lambda one: one[1])


class Endpoint:
    """By its base URL alone: the local container, the image or what forwards to an endpoint on AWS."""

    def __init__(self, url: str) -> None:
        self.url = url

    def post(
        self,
        body: object,
        content_type: str | None = "application/json",
        *,
        attributes: str = "",
        path: str = "/invocations",
        **headers: str,
    ) -> requests.Response:
        """`body` is bytes, or what becomes JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        if content_type is not None:
            headers["Content-Type"] = content_type
        if attributes:
            headers[ATTRIBUTES] = attributes
        return requests.post(self.url + path, data, headers=headers, timeout=60)

    def predictions(self, body: object, content_type: str = "application/json") -> Any:
        """The predictions of an answer that must be 200."""
        answer = self.post(body, content_type)
        assert answer.status_code == 200, answer.text
        return answer.json()["predictions"]

    def do(self, name: str, body: object = b"{}", attributes: str = "") -> requests.Response:
        """With inference.py of this folder: what its function `name` answers."""
        chosen = ",".join(filter(None, [f"do={name}", attributes]))
        return self.post(body, attributes=chosen)

    def get(self, path: str) -> requests.Response:
        return requests.get(self.url + path, timeout=30)


# A proxy of the shell is nobody's business on this machine.
HOSTS = [os.environ.get("NO_PROXY"), "127.0.0.1", "localhost"]
os.environ["NO_PROXY"] = ",".join(filter(None, HOSTS))
