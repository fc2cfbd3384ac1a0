"""The data of a load test: its target and requests, and its measurements, steps of rising load.

curve = LoadCurve.read(folder / CURVE)
curve.steps[-1].throughput_rps.value, curve.steps[-1].latencies.p99_ms
"""

import datetime
import json
import math
import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from model_packaging.beside import write_atomically
from servable.measured.precision import Interval, Latencies

# The file in a run's folder that contains its curve.
CURVE = "curve.json"
# A step's throughput is known when half of its interval is at most this share of it.
KNOWN_SHARE = 0.05
# Responses and failures are counted for each half second.
BLOCK_SECONDS = 0.5
# Limits of the lateness of requests, as a share of the median latency and in milliseconds.
# Source: the requirements of this project.
MOST_LAG_SHARE = 0.10
MOST_LAG_MS = 5.0

Loop = Literal["closed", "open"]


class LoadError(Exception):
    """The load could not be sent. `str()` is a complete sentence with the failure and its fix."""


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
    """An address that accepts POST requests. Raises LoadError for an invalid address."""

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
            raise LoadError(
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


def generate_arrival_times(rate_rps: float, arrivals: Arrivals, seed: int) -> Iterator[float]:
    """Yield arrival times, in seconds since the beginning, in rising order and without end.

    "poisson": independent callers. "constant": one arrival every 1 / `rate_rps` seconds.
    """
    chance, now = Random(seed), 0.0
    while True:
        now += 1 / rate_rps if arrivals == "constant" else chance.expovariate(rate_rps)
        yield now


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The CPU and memory use of the target's processes; known only on this computer."""

    cpu_cores: float
    """Busy cores: 1.5 means one and a half, all the time."""
    memory_mib: float
    """Maximum of the proportional set size of all processes together."""


@dataclass(frozen=True, kw_only=True)
class LoadStep:
    """One load, applied until its throughput was known or the time was over.

    Latency counts from when a request was due, and only for requests with a response.
    """

    users: int | None = None
    """Closed loop: users that each send again as soon as they have a response."""
    rate_rps: float | None = None
    """Open loop: requests per second, sent regardless of the responses."""
    warm_up_seconds: float
    """Warm-up before the step, at its load; excluded from every number here."""
    seconds: float
    throughput_rps: Interval
    """Successful responses per second."""
    latencies: Latencies
    tails: tuple[Latencies, ...] = ()
    """Responses slower than p95, for each half second in which they were due."""
    answered: tuple[int, ...] = ()
    """All responses, for each half second in which they were due."""
    failures: tuple[int, ...] = ()
    """Failed requests, for each half second in which they were due."""
    p95_interval_ms: Interval | None = None
    p99_interval_ms: Interval | None = None
    """95 % confidence intervals of p95 and p99, from their variation during the step."""
    errors: dict[str, int] = field(default_factory=dict)
    """Counts by kind, such as "500" or "connection refused"; excluded from the latencies."""
    first_answers: dict[str, str] = field(default_factory=dict)
    """The first response's body of each kind of error, at most 4,096 bytes."""
    timeouts: int = 0
    """Requests without a response in time or at the end; excluded from the latencies."""
    from_due: bool = True
    """Whether latency counts from when a request was due; False: from sending."""
    send_lags: Latencies
    """Delays of requests behind their scheduled times; part of their latency."""
    generator_cpu_share: float
    """The generator's share of its cores, one for each process; 1.0: all of them, all the time."""
    target: Usage | None = None

    @property
    def load(self) -> float:
        """Return the load: the number of users, or the requests per second."""
        return float((self.rate_rps if self.users is None else self.users) or 0)

    @property
    def has_known_throughput(self) -> bool:
        """Return whether the throughput is known within 5 %."""
        return self.throughput_rps.half_width_share <= KNOWN_SHARE

    @property
    def failure_count(self) -> int:
        return sum(self.errors.values()) + self.timeouts

    @property
    def request_count(self) -> int:
        return self.latencies.count + self.failure_count

    @property
    def failed_share(self) -> float:
        return self.failure_count / self.request_count if self.request_count else 0.0

    @property
    def rejection(self) -> str | None:
        """Return why the step must be ignored, or None if it counts.

        A step in which the generator sent requests late doesn't measure the target.
        """
        lag, p50 = self.send_lags.p99_ms, self.latencies.p50_ms
        most = max(MOST_LAG_MS, 0.0 if math.isnan(p50) else MOST_LAG_SHARE * p50)
        if math.isnan(lag) or lag <= most:
            return None
        return (
            f"requests were sent {lag:.1f} ms late at p99, at most {most:.1f} ms is allowed; the "
            "generator can't keep up; lower the load, raise --processes, or stop other programs on its "
            "computer"
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredTarget:
    """The target and requests of a load test, with the time and computer of the measurement."""

    target: str
    """The kind of target: "local", "sagemaker", "url"."""
    address: str
    """The URL or the endpoint's name."""
    environment: str | None = None
    variant: str | None = None
    model_sha256: str | None = None
    """SHA-256 of the archive, if it is on this computer."""
    model_at: str | None = None
    """Otherwise the archive's S3 URI, which changes when a different model is deployed."""
    bodies: tuple[str, ...] = ()
    """Names of the requests, such as "2 of requests.jsonl (application/json)"."""
    started_at: str = field(
        default_factory=lambda: f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}"
    )
    machine: str = field(
        default_factory=lambda: f"{platform.node()}, {os.cpu_count()} cores, {platform.machine()}"
    )
    """Computer of the generator, and of a local target."""
    instance_type: str | None = None
    """The endpoint's instance type in SageMaker; None on this computer."""

    @property
    def is_relative(self) -> bool:
        """Return whether the numbers only rank settings, because this computer was the target."""
        return self.instance_type is None


@dataclass(frozen=True, kw_only=True)
class LoadCurve:
    """The steps of a load test, in the order of measurement."""

    asked: MeasuredTarget
    loop: Loop
    steps: tuple[LoadStep, ...]
    ended: str = "done"
    """Why there are no more steps: "done", "saturated", "interrupted", "failing"."""

    @property
    def unit(self) -> str:
        """Return the unit of its loads."""
        return "users" if self.loop == "closed" else "requests/s"

    @property
    def valid_steps(self) -> tuple[LoadStep, ...]:
        """Return the steps that weren't rejected, by rising load."""
        valid = [step for step in self.steps if step.rejection is None]
        return tuple(sorted(valid, key=lambda step: step.load))

    def as_object(self) -> Any:
        """Return the curve as an object for JSON."""
        return json.loads(_FORM.dump_json(self))

    def write(self, file: Path) -> None:
        write_atomically(file, _FORM.dump_json(self, indent=1))

    @classmethod
    def read(cls, file: Path) -> "LoadCurve":
        """Read a curve from a file. Raises OSError, and ValueError if the file isn't a curve."""
        return _FORM.validate_json(file.read_bytes())


_FORM = TypeAdapter(LoadCurve)
