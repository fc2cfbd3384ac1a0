"""The measurements of a load test: steps of rising load, and their target.

curve = LoadCurve.read(folder / CURVE)
curve.steps[-1].throughput_rps.value, curve.steps[-1].latencies.p99_ms
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from model_packaging.beside import write_atomically
from servable.measured.precision import Interval, Latencies

# The file of a run's folder that holds its curve.
CURVE = "curve.json"
# A step's throughput counts as known when its interval is at most so wide to either side.
KNOWN_SHARE = 0.05
# The most that requests may be sent late, of the median latency and in milliseconds.
# Source: the requirements of this project.
MOST_LAG_SHARE = 0.10
MOST_LAG_MS = 5.0

Loop = Literal["closed", "open"]


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The CPU and memory use of the target's processes; known only on this computer."""

    cpu_cores: float
    """Cores busy: 1.5 is one and a half of them all the time."""
    memory_mib: float
    """Most at once, proportional set size of all processes together."""


@dataclass(frozen=True, kw_only=True)
class LoadStep:
    """One load, applied until its throughput was known or the time was over.

    Latency counts from when a request was due, and only for requests with a response.
    """

    users: int | None = None
    """Closed loop: callers that each ask again as soon as they are answered."""
    rate_rps: float | None = None
    """Open loop: requests per second that are meant to be sent, whatever becomes of them."""
    warm_up_seconds: float
    """Warm-up before the step, at its load; in no number here."""
    seconds: float
    throughput_rps: Interval
    """Answered well, per second."""
    latencies: Latencies
    tails: tuple[Latencies, ...] = ()
    """The answers slower than p95, for each half second in which they were due."""
    answered: tuple[int, ...] = ()
    """All answers, for each half second in which they were due."""
    failures: tuple[int, ...] = ()
    """Failed requests, for each half second in which they were due."""
    p95_interval_ms: Interval | None = None
    p99_interval_ms: Interval | None = None
    """95 % confidence intervals of p95 and p99, from their variation during the step."""
    errors: dict[str, int] = field(default_factory=dict)
    """By kind, as "500 Internal Server Error" or "connection refused". Never among latencies."""
    first_answers: dict[str, str] = field(default_factory=dict)
    """For each kind of error that came as an answer the body of the first, at most 4,096 bytes."""
    timeouts: int = 0
    """Not answered in time, those still under way at the end included. Never among latencies."""
    from_due: bool = True
    """Whether latency counts from when a request was due; False: from sending."""
    send_lags: Latencies
    """Delays of requests behind their scheduled times; part of their latency."""
    generator_cpu_share: float
    """CPU share of the generator, one core for each process; 1.0: all of them all the time."""
    target: Usage | None = None

    @property
    def load(self) -> float:
        """Return the load: the number of users, or the requests per second."""
        load = self.users if self.users is not None else self.rate_rps
        return float(load or 0)

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
            "generator cannot keep up: lower the load, give it more processes, or end other work on its "
            "computer"
        )


@dataclass(frozen=True, kw_only=True)
class MeasuredTarget:
    """The target and requests of a load test, with the time and computer of the measurement."""

    target: str
    """"local", "sagemaker", "url": whose numbers these are."""
    address: str
    """The URL or the endpoint's name."""
    environment: str | None = None
    variant: str | None = None
    model_sha256: str | None = None
    """SHA-256 of the archive, if it is on this computer."""
    model_at: str | None = None
    """Otherwise the archive's address in S3, which changes when another model is deployed."""
    bodies: tuple[str, ...] = ()
    """Names of the requests, as "2 of requests.jsonl (application/json)"."""
    started_at: str
    """UTC, as 2026-11-21T12:00:00Z."""
    machine: str
    """Computer of the generator, and of a local target."""
    instance_type: str | None = None
    """Instance type that answered in SageMaker; None on this computer."""

    @property
    def is_relative(self) -> bool:
        """Return whether the target was measured on this computer.

        Such numbers rank settings and aren't valid for AWS.
        """
        return self.instance_type is None


@dataclass(frozen=True, kw_only=True)
class LoadCurve:
    """The steps of a load test, in the order in which they were measured."""

    asked: MeasuredTarget
    loop: Loop
    steps: tuple[LoadStep, ...]
    ended: str = "done"
    """Why there are no more steps: "done", "saturated", "interrupted", "failing"."""

    @property
    def valid_steps(self) -> tuple[LoadStep, ...]:
        """Return the steps that weren't rejected, by rising load."""
        fine = [step for step in self.steps if step.rejection is None]
        return tuple(sorted(fine, key=lambda step: step.load))

    def add_step(self, step: LoadStep) -> "LoadCurve":
        """Return a copy of the curve with this step appended."""
        return dataclasses.replace(self, steps=(*self.steps, step))

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
