"""A WSGI application that has used an Endpoint before Gunicorn forks its workers (--preload)."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from servable_client import Endpoint

ENDPOINT = Endpoint.local(os.environ["CONTAINER"], connections=2)
ENDPOINT.predict(x=np.arange(4.0), split=2)


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """/N: 2 N by the endpoint, and who answers."""
    x = float(environ["PATH_INFO"].strip("/"))
    y = ENDPOINT.predict(x=np.array([x, x + 1]), split=1, timeout_seconds=20)["y"].tolist()
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {y}".encode()]
