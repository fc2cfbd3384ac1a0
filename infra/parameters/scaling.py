"""[variants.NAME.scaling]: when instances come and go."""

from typing import Annotated

from pydantic import Field

from infra.parameters.table import Table

# A week, in seconds.
Cooldown = Annotated[int, Field(ge=0, le=604_800)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]
# https://docs.aws.amazon.com/autoscaling/application/APIReference/API_PutScheduledAction.html
When = Annotated[str, Field(pattern=r"^(cron|rate|at)\([^()]+\)$", max_length=1600)]
Capacity = Annotated[int, Field(ge=0, le=10_000)]


class Step(Table):
    """A number of instances at once, beyond a bound on the requests of one instance."""

    above_rps: Rate | None = None
    """Requests per second and instance above which instances are added. This, or below_rps."""
    below_rps: Rate | None = None
    """Requests per second and instance below which instances are removed. This, or above_rps."""
    change: Annotated[int, Field(ge=-10_000, le=10_000)]
    """Instances that are added, or removed when negative."""


class Scheduled(Table):
    """Another range from a time on: for a morning that is known before its traffic comes."""

    at: When
    """cron(0 7 ? * MON-FRI *), at(2026-12-24T18:00:00) or rate(1 day); the six fields of cron are
    minute, hour, day, month, weekday, year."""
    timezone: str = "UTC"
    """Of `at`, as Europe/Berlin: summer time is followed. Left out, UTC, Application Auto Scaling's
    own."""
    at_least: Capacity | None = None
    """Instances, or provisioned concurrency, that then run at least. Left out, as before."""
    at_most: Capacity | None = None
    """Instances, or provisioned concurrency, that then run at most. Left out, as before."""


class Scaling(Table):
    """docs/scaling.md says when which is right. Left out, the number of instances is fixed."""

    max_rps_per_instance: Rate | None = None
    """Requests per second that one instance answers within its latency objective, measured.
    Instances are added at its safe share."""
    max_concurrency_per_instance: Rate | None = None
    """Requests that one instance answers at the same time within its latency objective, measured.
    Seen every 10 s instead of every minute: for traffic that comes suddenly."""
    max_backlog_per_instance: Rate | None = None
    """Waiting requests per instance of an asynchronous endpoint at which instances are added."""
    provisioned_use_percent: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Share of a serverless variant's provisioned concurrency in use at which more is
    provisioned."""
    safety_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the measured maximum at which instances are added. 0.5 is AWS's starting point: new
    instances need minutes, traffic does not."""
    steps: list[Step] = Field(default=[])
    """Several instances at once where traffic jumps: { above_rps = 150, change = 4 }."""
    schedule: list[Scheduled] = Field(default=[])
    """Another range at a known time: { at = "cron(0 7 ? * MON-FRI *)", timezone = "Europe/Berlin",
    at_least = 6 }."""
    scale_out_cooldown_seconds: Cooldown | None = None
    """Seconds after adding instances before adding more. Left out, the time that a new instance is
    estimated to need until it answers; `servable check --explain` shows it."""
    scale_in_cooldown_seconds: Cooldown | None = None
    """Seconds after removing instances before removing more. Left out, twice the way out: an
    instance too many costs cents, one too few costs requests."""
    hold: bool = False
    """true: scaling is switched off and the live number of instances stays as it is, also through
    updates. The first of the two deploys that change a scaled variant's instance type."""
