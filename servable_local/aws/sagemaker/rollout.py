"""An update that is under way: the new fleet beside the old, stage by stage."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_local.aws.sagemaker.fleet import Fleet
from servable_local.aws.sagemaker.stages import Stage, longest_seconds, rollback_alarms, stages

InAlarm = Callable[[Sequence[str]], list[str]]


@dataclass
class Rollout:
    """Moved on by the clock; knows when it is through, and when it has to go back."""

    fleet: Fleet
    config: Mapping[str, Any]
    deployment_config: Mapping[str, Any] | None
    started: datetime
    stages: list[Stage] = field(init=False)
    _at: int = 0
    _since: datetime = field(init=False)

    def __post_init__(self) -> None:
        self.stages = stages(self.deployment_config, self.fleet.instance_count)
        self._since = self.started

    @property
    def stage(self) -> Stage:
        return self.stages[self._at]

    @property
    def stage_started(self) -> datetime:
        return self._since

    def move_on(self, now: datetime) -> bool:
        """True when every stage is over."""
        while now >= self._since + timedelta(seconds=self.stage.bake_seconds):
            self._since += timedelta(seconds=self.stage.bake_seconds)
            if self._at + 1 == len(self.stages):
                return True
            self._at += 1
        return False

    def trouble(self, now: datetime, in_alarm: InAlarm) -> str | None:
        """Why it has to be taken back. None: nothing is wrong."""
        if raised := in_alarm(rollback_alarms(self.deployment_config)):
            return (
                f"The deployment was rolled back: alarm(s) [{', '.join(raised)}] in the "
                "auto-rollback configuration went into ALARM state."
            )
        longest = longest_seconds(self.deployment_config)
        if longest is not None and now >= self.started + timedelta(seconds=longest):
            return (
                "The deployment was rolled back: it took longer than "
                f"MaximumExecutionTimeoutInSeconds, {longest}."
            )
        return None
