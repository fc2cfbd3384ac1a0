"""[rollout]: how an update replaces the live fleet, and the golden requests sent while it bakes."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from infra.parameters.monitoring import Alarms
from infra.parameters.table import ProjectPath, Table
from infra.policy.hosting import EndpointKind
from infra.policy.update import Update

CONTENT_TYPES = {
    ".json": "application/json", ".jsonl": "application/jsonlines", ".csv": "text/csv",
    ".npy": "application/x-npy", ".pb": "application/x-protobuf",
}  # fmt: skip

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AutoRollbackConfig.html (2026-11-23)
MOST_ALARMS = 10
# Strategy to the key with the first share of an update; all_at_once has no such key.
SHARE = {"canary": "canary_percent", "linear": "step_percent", "rolling": "batch_percent"}


# Fault of a new model -> kinds of alarms that see it. 5xx are responses of the model; what isn't an
# HTTP response counts only as an error, and in no documented latency.
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (2026-11-24)
FAULTS: Mapping[str, tuple[str, ...]] = {
    "answers 400": ("golden-requests", "model-errors", "4xx"),
    "answers 500": ("5xx", "golden-requests", "model-errors"),
    "answers slowly": ("latency",),
    "answers wrongly": (),
    "does not answer": ("golden-requests", "model-errors"),
}


class GoldenRequests(Table):
    """A Lambda function of the endpoint's stack sends one request repeatedly during updates."""

    body: ProjectPath
    """File with the request body, for example examples/ranker/golden/request-rows.json. The template
    contains it: at most 4 KiB."""
    per_minute: Annotated[int, Field(ge=1, le=300)] = 60
    """Requests per minute, evenly spaced, sent only while the endpoint is updating. With 60, half of
    them on the new instances, one failure in a hundred shows within minutes."""
    content_type: str | None = Field(default=None, pattern=r"^[\x20-\x7e]{1,128}$")
    """Content type of the body. Default: by the file's extension, for example application/json for
    .json."""

    @property
    def request_content_type(self) -> str | None:
        """Return the stated content type, or that of the file's extension, or None."""
        return self.content_type or CONTENT_TYPES.get(PurePosixPath(self.body).suffix)


class Rollout(Table):
    """A second fleet starts and takes over the traffic of the first; an alarm rolls the update back."""

    strategy: Literal["all_at_once", "canary", "linear", "rolling"]
    """all_at_once: shifts all traffic, then bakes. canary: shifts a first share, bakes, shifts the rest.
    linear: shifts equal shares with a bake after each. rolling: replaces instances batch by batch,
    without a second fleet. Bake: the time in which an alarm rolls the update back."""
    canary_percent: Annotated[int, Field(ge=1, le=50)] = 10
    """Percentage of the new fleet that takes traffic first (canary). SageMaker allows at most 50; 10
    limits the damage of a bad version."""
    step_percent: Annotated[int, Field(ge=10, le=50)] = 25
    """Percentage of each step (linear). SageMaker allows 10 to 50."""
    batch_percent: Annotated[int, Field(ge=5, le=50)] = 20
    """Percentage of the instances replaced at once (rolling). SageMaker allows 5 to 50."""
    rollback_batch_percent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Percentage of the instances that a rollback replaces at once (rolling). Default: batch_percent.
    100, SageMaker's own default, is the fastest rollback and needs capacity for a second fleet."""
    bake_minutes: Annotated[int, Field(ge=0, le=60)] = 10
    """Minutes that each share bakes before the next; with all_at_once, minutes that the old instances
    stay. SageMaker allows at most 60. The bake must outlast the alarms' window, or no alarm can
    fire in it."""
    rollback_on_4xx: bool = True
    """Whether alarms.error_4xx_percent and alarms.model_error_percent, where set, also roll an update
    back. The new fleet must exceed the old fleet's percentage by the threshold, so that your callers' own
    bad requests do not count; where there is no old fleet to compare with (all_at_once, a single
    instance, or error metrics that SageMaker does not publish by configuration), the threshold alone
    decides. false: only 5xx, p99 and golden requests do."""
    golden_requests: GoldenRequests | None = None
    """Requests that are sent while an update bakes, so that the alarms also judge an endpoint without
    traffic; errors in the answers roll the update back. Default: none."""

    @property
    def percent(self) -> int:
        """Return the percentage of the first share, step, or batch; 100 for all_at_once."""
        return getattr(self, SHARE[self.strategy]) if self.strategy in SHARE else 100

    @property
    def batches(self) -> tuple[int, int] | None:
        """Return a rolling update's batch and rollback batch in percent, or None."""
        if self.strategy != "rolling":
            return None
        return self.batch_percent, self.rollback_batch_percent or self.batch_percent

    def list_rollback_alarms(
        self, alarms: Alarms, *, variants: Sequence[str], kind: EndpointKind
    ) -> list[tuple[str | None, str]]:
        """Return (variant, kind of alarm) of each alarm that may roll an update back.

        The most important alarm is first, because SageMaker watches only the first MOST_ALARMS.
        Golden requests have no variant.
        """
        kinds = ["5xx"] if alarms.p99_latency_ms is None else ["5xx", "latency"]
        watched: list[tuple[str | None, str]] = [(v, kind) for v in variants for kind in kinds]
        if self.golden_requests is not None:
            watched.append((None, "golden-requests"))
        if not self.rollback_on_4xx:
            return watched
        published = kind.has_metric("InvocationModelErrors")
        if alarms.model_error_percent is not None and published:
            watched += [(name, "model-errors") for name in variants]
        if alarms.error_4xx_percent is not None:
            watched += [(name, "4xx") for name in variants]
        return watched

    def list_alarms_for_fault(self, fault: str, alarms: Alarms, *, kind: EndpointKind) -> list[str]:
        """Return the kinds of alarms that roll back an update to a model with this fault.

        If the list is empty, the update goes live.
        """
        watched = self.list_rollback_alarms(alarms, variants=["any"], kind=kind)
        return [each for _, each in watched if each in FAULTS[fault]]

    def list_updates(self, *, least: int, most: int, window_minutes: int) -> list[Update]:
        """Return the possible updates of a fleet of `least` to `most` instances.

        Scaling determines the number of instances, which an update keeps. `window_minutes` is the
        window of the alarms.
        """
        return [
            Update(
                strategy=self.strategy,
                percent=self.percent,
                bake_minutes=self.bake_minutes,
                window_minutes=window_minutes,
                instances=count,
                rollback_percent=self.batches[1] if self.batches else 100,
            )
            for count in range(max(least, 1), max(most, 1) + 1)
        ]
