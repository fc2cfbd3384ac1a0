"""The target, request bodies, and step durations of a load test."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

import numpy as np


@dataclass(frozen=True, kw_only=True)
class Body:
    content: bytes
    content_type: str
    weight: float = 1.0
    """Relative frequency among the bodies."""
    custom_attributes: str | None = None
    accept: str | None = None
    target_model: str | None = None
    """A model of a multi-model endpoint."""


@dataclass(frozen=True, kw_only=True)
class LoadTarget:
    """An address that accepts POST requests. Raises ValueError for an invalid address."""

    url: str
    """The whole address, such as http://127.0.0.1:8080/invocations."""
    headers: dict[str, str] = field(default_factory=dict)
    """Sent in addition to the body's headers."""
    signing_region: str | None = None
    """Requests are signed for SageMaker in this Region, with the environment's credentials."""
    # SageMaker responds within 60 s or not at all.
    # Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"{self.url}: pass a complete URL, such as http://127.0.0.1:8080/invocations"
            )

    @property
    def origin(self) -> str:
        """Return the scheme, host, and port, such as http://127.0.0.1:8080."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    @property
    def base_url(self) -> str:
        """Return the URL without /invocations, for Locust's `host`; otherwise the origin."""
        end = "/invocations"
        return self.url.removesuffix(end) if self.url.endswith(end) else self.origin


def build_container_target(url: str) -> LoadTarget:
    """Return the target for a container, with /invocations if the URL has no path."""
    whole = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/invocations"
    return LoadTarget(url=whole)


def build_endpoint_target(
    name: str, *, region: str, runtime_url: str, variant: str | None = None
) -> LoadTarget:
    """Return the target for a deployed endpoint. `runtime_url`: URL of the SageMaker runtime API."""
    return LoadTarget(
        url=f"{runtime_url.rstrip('/')}/endpoints/{name}/invocations",
        headers={"X-Amzn-SageMaker-Target-Variant": variant} if variant else {},
        signing_region=region,
    )


Arrivals = Literal["poisson", "constant"]


@dataclass(frozen=True, kw_only=True)
class Pace:
    """The duration of a load step and the distribution of its arrivals."""

    warm_up_seconds: float = 2.0
    """Connections are opened and queues fill; excluded from every number."""
    least_seconds: float = 4.0
    """In less time, throughput can seem known within 5 % by chance."""
    most_seconds: float = 30.0
    arrivals: Arrivals = "poisson"


_AT_ONCE = 1024


def generate_arrival_times(rate_rps: float, arrivals: Arrivals, seed: int) -> Iterator[float]:
    """Yield arrival times, in seconds since the beginning, in rising order and without end.

    "poisson": independent callers. "constant": one arrival every 1 / `rate_rps` seconds.
    """
    gap, now = 1 / rate_rps, 0.0
    random = np.random.default_rng(seed)
    while True:
        constant = arrivals == "constant"
        gaps = np.full(_AT_ONCE, gap) if constant else random.exponential(gap, _AT_ONCE)
        moments = now + np.cumsum(gaps)
        yield from moments.tolist()
        now = float(moments[-1])
