"""[rollout]: how an update replaces what is live, and what is asked while it bakes."""

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import Field

from infra.parameters.table import Table
from infra.policy.update import Update

CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".npy": "application/x-npy",
    ".pb": "application/x-protobuf",
}


class GoldenRequests(Table):
    """One request, again and again, from a function of the endpoint's own stack."""

    body: str = Field(min_length=1)
    """File with the request, as examples/ranker/golden/request-rows.json. It travels inside the
    stack: at most 4 KiB."""
    per_minute: Annotated[int, Field(ge=1, le=300)] = 60
    """Requests a minute, evenly, while the endpoint is updating and at no other time. 60: with half
    of them on the new instances, one failure in a hundred shows within minutes."""
    content_type: str | None = Field(default=None, pattern=r"^[\x20-\x7e]{1,128}$")
    """Of the body. Left out, by the file's name: application/json for .json, and so on."""

    @property
    def sent_as(self) -> str | None:
        """The content type; None where neither key nor name says it."""
        return self.content_type or CONTENT_TYPES.get(PurePosixPath(self.body).suffix)


class Rollout(Table):
    """A second fleet starts beside the first and takes its traffic; an alarm on it takes it back."""

    strategy: Literal["all_at_once", "canary", "linear", "rolling"]
    """all_at_once: everything, then bake. canary: a first share, bake, the rest. linear: share by
    share, a bake after each. rolling: instances are replaced batch by batch, without a second
    fleet."""
    canary_percent: Annotated[int, Field(ge=1, le=50)] = 10
    """First share of the new fleet that takes traffic (canary). SageMaker allows at most 50; 10
    limits what a bad version can hurt."""
    step_percent: Annotated[int, Field(ge=10, le=50)] = 25
    """Share of each step (linear). SageMaker allows 10 to 50."""
    batch_percent: Annotated[int, Field(ge=5, le=50)] = 20
    """Share of the instances replaced at once (rolling). SageMaker allows 5 to 50."""
    rollback_batch_percent: Annotated[int, Field(ge=1, le=100)] | None = None
    """Share of the instances that a rollback brings back at once (rolling). Left out, batch_percent.
    100: all of the old ones at once, as SageMaker does by itself: the quickest way back, and it needs
    room for a second fleet."""
    bake_minutes: Annotated[int, Field(ge=0, le=60)] = 10
    """Minutes each share is watched before the next; all at once, minutes that the old instances
    stay. SageMaker allows at most 60; it must outlast the alarms' window or they protect
    nothing."""
    golden_requests: GoldenRequests | None = None
    """Requests that are sent while an update bakes, so that an endpoint nobody calls is judged too.
    Left out, only callers' own requests are."""

    @property
    def percent(self) -> int:
        """Of the first share, of each step or of each batch; 100 all at once."""
        shares = {
            "canary": self.canary_percent,
            "linear": self.step_percent,
            "rolling": self.batch_percent,
        }
        return shares.get(self.strategy, 100)

    @property
    def batches(self) -> tuple[int, int] | None:
        """Percent of a batch and of a batch of the rollback where it rolls; None with a second fleet."""
        if self.strategy != "rolling":
            return None
        return self.batch_percent, self.rollback_batch_percent or self.batch_percent

    def updates(self, *, least: int, most: int, window_minutes: int) -> list[Update]:
        """Of a fleet of `least` to `most` instances, watched by alarms over so many minutes.

        Scaling decides which of them it will be: an update keeps the count that it has reached.
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
