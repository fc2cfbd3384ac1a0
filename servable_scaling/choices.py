"""Assumptions in place of what AWS does not publish about scaling: each is a setting.

Where AWS publishes a rule, the rule stands in the code with its page. `OBSERVED` marks what was
seen in exported alarms and activities of users; the others are choices of ours.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any, Literal

OBSERVED, CHOSEN = "observed", "chosen"


def _observed(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"kind": OBSERVED, "meaning": meaning})


def _chosen(default: Any, meaning: str) -> Any:
    return field(default=default, metadata={"kind": CHOSEN, "meaning": meaning})


@dataclass(frozen=True, kw_only=True)
class ScalingChoices:
    """Give another value to see what depends on it: `changed` names what is not the default."""

    high_datapoints: int = _observed(
        3, "minutes above the target on end until a tracking policy adds capacity"
    )
    low_datapoints: int = _observed(
        15, "minutes below the low threshold on end until a tracking policy removes capacity"
    )
    low_threshold_share: float = _observed(
        0.9, "low threshold of a tracking policy, as a share of its target"
    )
    scaling_updates_endpoint: bool = _observed(
        True, "while instances start or end the endpoint is Updating, so that nothing else scales"
    )
    high_resolution_seconds: int = _chosen(
        10,
        "period of a high-resolution metric's high alarm, in seconds; that of its low alarm is 60",
    )
    metric_delay_seconds: int = _chosen(
        0, "time until a datapoint can be seen by an alarm, in seconds"
    )
    tracking_datapoints: int = _chosen(
        1, "newest datapoints whose average a tracking policy compares with its target"
    )
    concurrency_statistic: Literal["Average", "Maximum"] = _chosen(
        "Average",
        "statistic of concurrent requests per model, and of provisioned concurrency in use, that a tracking "
        "policy follows",
    )
    step_datapoints: int | None = _chosen(
        None, "newest datapoints that a step policy aggregates; None: all that its alarm evaluated"
    )
    scale_in_percent: float = _chosen(
        10.0,
        "most that a tracking policy removes at once, in percent of the capacity and at least 1",
    )
    tracking_leaves_zero: bool = _chosen(
        True, "a tracking policy whose metric is above its target starts the first instance"
    )
    out_cooldown_of: Literal["policy", "target"] = _chosen(
        "policy", "whether one policy's scale-out cooldown holds back the others of its target"
    )
    unscalable_schedule_sets_bounds: bool = _chosen(
        False,
        "a scheduled action that fails while the endpoint updates sets its bounds all the same",
    )
    rate_from: Literal["start_time", "creation"] = _chosen(
        "start_time",
        "when the intervals of rate(…) begin; without a StartTime: when it was created",
    )
    skipped_local_time: Literal["skipped", "after"] = _chosen(
        "skipped",
        "a local time that the change to summer time leaves out: no run, or one right after the change",
    )
    repeated_local_time: Literal["once", "twice"] = _chosen(
        "once", "a local time that the change to winter time brings twice: one run, or two"
    )

    def changed(self) -> dict[str, Any]:
        """{setting: value} of all that are not the default."""
        return {
            setting.name: getattr(self, setting.name)
            for setting in fields(self)
            if getattr(self, setting.name) != setting.default
        }


def rows() -> Iterator[tuple[str, str, str, str]]:
    """(setting, default, observed or chosen, meaning), for the pages."""
    for setting in fields(ScalingChoices):
        yield (
            f"`{setting.name}`",
            str(setting.default),
            setting.metadata["kind"],
            setting.metadata["meaning"],
        )
