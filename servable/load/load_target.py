"""The target, bodies, and pace of a load test."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import numpy as np

# SageMaker answers within 60 s or not at all.
# Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_runtime_InvokeEndpoint.html
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Body:
    content: bytes
    content_type: str
    weight: float = 1.0
    """Relative frequency among the bodies."""
    custom_attributes: str | None = None
    accept: str | None = None
    """The Accept header; None: none is sent."""
    target_model: str | None = None
    """A model of a multi-model endpoint."""


@dataclass(frozen=True, kw_only=True)
class LoadTarget:
    """An address that takes POST. Raises ValueError for what is none."""

    url: str
    """Whole, as http://127.0.0.1:8080/invocations."""
    headers: dict[str, str] = field(default_factory=dict)
    """Beside those of the body."""
    signing_region: str | None = None
    """Requests are signed for SageMaker there, with the credentials of the environment."""
    timeout_seconds: float = TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if self.parts.scheme not in ("http", "https") or not self.parts.hostname:
            raise ValueError(
                f"{self.url}: give a whole address, as http://127.0.0.1:8080/invocations"
            )

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def origin(self) -> str:
        """Scheme, host, and port, as http://127.0.0.1:8080."""
        return f"{self.parts.scheme}://{self.parts.netloc.rpartition('@')[2]}"

    @property
    def base(self) -> str:
        """What precedes /invocations, as Locust's `host`; the origin of any other address."""
        end = "/invocations"
        return self.url.removesuffix(end) if self.url.endswith(end) else self.origin


def container(url: str) -> LoadTarget:
    """Return a container, as `servable serve` prints its address; a path of its own is left as it is."""
    whole = url if urlsplit(url).path.strip("/") else f"{url.rstrip('/')}/invocations"
    return LoadTarget(url=whole)


def endpoint(name: str, *, region: str, runtime_url: str, variant: str | None = None) -> LoadTarget:
    """Return a deployed endpoint, invoked as boto3 would: signed. `runtime_url`: of the runtime API."""
    headers = {"X-Amzn-SageMaker-Target-Variant": variant} if variant else {}
    return LoadTarget(
        url=f"{runtime_url.rstrip('/')}/endpoints/{name}/invocations",
        headers=headers,
        signing_region=region,
    )


Arrivals = Literal["poisson", "constant"]
_AT_ONCE = 1024


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Duration of a load step and its arrivals."""

    warm_up_seconds: float = 2.0
    """Connections are opened and queues fill; in no number."""
    least_seconds: float = 4.0
    """Two seconds can be known within 5 % by chance."""
    most_seconds: float = 30.0
    """A percentile that is not known within 5 % by then is reported as unknown."""
    arrivals: Arrivals = "poisson"


def times(rate_rps: float, arrivals: Arrivals, seed: int) -> Iterator[float]:
    """Yield seconds since the beginning, rising, without end.

    "poisson": callers that know nothing of each other. "constant": one at each 1 / rate.
    """
    gap, now = 1 / rate_rps, 0.0
    random = np.random.default_rng(seed)
    while True:
        gaps = np.full(_AT_ONCE, gap)
        if arrivals == "poisson":
            gaps = random.exponential(gap, _AT_ONCE)
        moments = now + np.cumsum(gaps)
        yield from moments.tolist()
        now = float(moments[-1])
