"""[variants.NAME.scaling]: when instances are added and removed."""

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
    """Adds or removes a number of instances at once beyond a bound on the requests of one instance."""

    above_rps: Rate | None = None
    """Requests per second and instance above which instances are added. Give this or below_rps."""
    below_rps: Rate | None = None
    """Requests per second and instance below which instances are removed. Give this or above_rps."""
    change: Annotated[int, Field(ge=-10_000, le=10_000)]
    """Instances to add; negative to remove."""


class Scheduled(Table):
    """Changes the range of instances at a time, for traffic whose time is known beforehand."""

    at: When
    """cron(0 7 ? * MON-FRI *), at(2026-12-24T18:00:00) or rate(1 day); the six fields of cron are
    minute, hour, day, month, weekday, year."""
    timezone: str = "UTC"
    """Time zone of `at`, for example Europe/Berlin; daylight saving time is followed. Default: UTC, as in
    Application Auto Scaling."""
    at_least: Capacity | None = None
    """Minimum of instances, or provisioned concurrency, from then on. If omitted, unchanged."""
    at_most: Capacity | None = None
    """Maximum of instances, or provisioned concurrency, from then on. If omitted, unchanged."""


class Scaling(Table):
    """docs/scaling.md compares the policies. If omitted, the number of instances is fixed."""

    max_rps_per_instance: Rate | None = None
    """Measured requests per second that one instance answers within its latency objective. Instances
    are added at this rate times safety_factor."""
    max_concurrency_per_instance: Rate | None = None
    """Measured concurrent requests that one instance answers within its latency objective. The metric
    is published every 10 s instead of every minute: for traffic that rises suddenly."""
    max_backlog_per_instance: Rate | None = None
    """Queued requests per instance of an asynchronous endpoint at which instances are added."""
    provisioned_use_percent: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Utilization of a serverless variant's provisioned concurrency, in percent, at which more is
    provisioned."""
    safety_factor: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the measured maximum at which instances are added. 0.5 is AWS's starting point, because
    a new instance needs minutes to start."""
    steps: list[Step] = Field(default=[])
    """Step scaling, which adds several instances at once: { above_rps = 150, change = 4 }."""
    schedule: list[Scheduled] = Field(default=[])
    """Scheduled actions that change the range: { at = "cron(0 7 ? * MON-FRI *)", timezone =
    "Europe/Berlin", at_least = 6 }."""
    scale_out_cooldown_seconds: Cooldown | None = None
    """Seconds after adding instances before adding more. Default: the estimated time that a new
    instance needs until it answers; `servable check --explain` shows it."""
    scale_in_cooldown_seconds: Cooldown | None = None
    """Seconds after removing instances before removing more. Default: twice the scale-out cooldown,
    because an instance too many costs cents and one too few costs requests."""
    metric_delay_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Seconds until an alarm sees a minute's datapoint, for `servable rehearse` alone: those from three
    minutes above the target to the StateTransitioned of the alarm's history. Default: a range."""
    hold: bool = False
    """true: scaling is suspended and the live number of instances stays as it is, also through updates.
    It is the first of the two deploys that change a scaled variant's instance type."""
