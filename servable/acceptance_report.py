"""Reads a report of `servable accept`: the minutes that AWS took, for a plan and a rehearsal."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

FORMAT = 1
"""Format of a report; raised when a reader of an older one would misread a newer one."""


def read_report(file: Path) -> dict[str, Any]:
    """Read a report. Raises click.UsageError for another file."""
    try:
        report = json.loads(file.read_text(encoding="utf-8"))
        if report["format"] == FORMAT:
            return dict(report)
        problem = f"format {report['format']}; this servable reads {FORMAT}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"no report of `servable accept`: {error}"
    raise click.UsageError(f"{file}: {problem}")


FROM_ACCEPT = click.option(
    "--from-accept",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Report of `servable accept`: the minutes that AWS took in your account.",
)
# AlarmHigh of target tracking: three minutes above the target.
_ALARM_MINUTES = 3
# Step, and the fact of it, to what a deployment does then.
_STAGES = {
    ("deploy", "main.SageMaker::Endpoint_minutes"): "an endpoint's creation",
    ("update", "main.SageMaker::Endpoint_minutes"): "an update",
    ("answers-500", "main.CloudFormation::Stack_minutes"): "an update that is rolled back",
    ("scaling", "start_minutes"): "one more instance",
}


@dataclass(frozen=True, kw_only=True)
class MeasuredMinutes:
    """What a run in an account measured, as far as it got."""

    source: str
    """Instance type, region and date."""
    stages: dict[str, float]
    """Stage of a deployment to its minutes."""
    start_seconds: float | None
    """From the decision to scale out until the instance serves."""
    metric_delay_seconds: int | None
    """From a request until its metric is there for the alarm."""

    def line(self) -> str:
        """One sentence, for a plan."""
        stages = ", ".join(f"{name} {minutes:g} min" for name, minutes in self.stages.items())
        return f"measured in this account ({self.source}): {stages or 'nothing that lasts'}"


def measured_minutes(file: Path) -> MeasuredMinutes:
    """Read a report. Raises click.UsageError for one of the local AWS, whose clock is not AWS's."""
    report = read_report(file)
    if report["aws"] != "AWS":
        raise click.UsageError(f"{file}: is of the {report['aws']}, whose minutes are not AWS's")
    facts = {step["name"]: step["facts"] for step in report["steps"]}
    stages = {
        words: facts[step][fact]
        for (step, fact), words in _STAGES.items()
        if fact in facts.get(step, {})
    }
    scaling = facts.get("scaling", {})
    start, decided = scaling.get("start_minutes"), scaling.get("decided_minutes")
    return MeasuredMinutes(
        source=f"{report['instance_type']}, {report['region']}, {report['began'][:10]}",
        stages=stages,
        start_seconds=None if start is None else round(start * 60),
        metric_delay_seconds=None
        if decided is None
        else max(0, round((decided - _ALARM_MINUTES) * 60)),
    )
