"""[rollout]: how an update replaces what is live."""

from typing import Annotated, Literal

from pydantic import Field

from infra.parameters.table import Table


class Rollout(Table):
    """A second fleet starts beside the first and takes its traffic; an alarm on it takes it back."""

    strategy: Literal["all_at_once", "canary", "linear", "rolling"] = Field(
        description="all_at_once: everything, then bake. canary: a first share, bake, the rest. "
        "linear: share by share, a bake after each. rolling: instances are replaced batch by batch, "
        "without a second fleet."
    )
    canary_percent: Annotated[int, Field(ge=1, le=50)] = Field(
        default=10,
        description="First share of the new fleet that takes traffic (canary). SageMaker allows at "
        "most 50; 10 limits what a bad version can hurt.",
    )
    step_percent: Annotated[int, Field(ge=10, le=50)] = Field(
        default=25, description="Share of each step (linear). SageMaker allows 10 to 50."
    )
    batch_percent: Annotated[int, Field(ge=5, le=50)] = Field(
        default=20,
        description="Share of the instances replaced at once (rolling). SageMaker allows 5 to 50.",
    )
    bake_minutes: Annotated[int, Field(ge=0, le=60)] = Field(
        default=10,
        description="Minutes each share is watched before the next. SageMaker allows at most 60; it "
        "must outlast the alarms' window or they protect nothing.",
    )
