"""Calls to an endpoint under test, and the example that it serves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from servable_local.container.launch import EndpointProcess

RANKER = Path(__file__).parents[3] / "examples" / "ranker"
Pack = Callable[..., Path]


def post(
    process: EndpointProcess,
    body: object,
    content_type: str | None = "application/json",
    **headers: str,
) -> requests.Response:
    """One request; `body` is bytes, or what becomes JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    if content_type is not None:
        headers["Content-Type"] = content_type
    return requests.post(process.url + "/invocations", data, headers=headers, timeout=30)


def golden(name: str) -> Any:
    return json.loads((RANKER / "golden" / name).read_bytes())
