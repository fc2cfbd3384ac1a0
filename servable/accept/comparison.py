"""A report held against another: facts that differ, step by step."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from servable.accept.record import FORMAT

LOCAL_AWS = Path(__file__).with_name("local_aws.json")
"""What the local AWS answered; `make accept-local` writes it."""
_DURATIONS = ("minutes", "seconds", "_ms", "rps")
# A duration is another one from this factor on: the local AWS runs on a clock of its own.
FACTOR = 2.0
_MISSING = "not there"


@dataclass(frozen=True)
class FactDifference:
    """One fact of one step that two reports state differently."""

    step: str
    fact: str
    first: Any
    second: Any
    is_duration: bool = False

    def __str__(self) -> str:
        return f"{self.step}: {self.fact}: {_short(self.first)}, {_short(self.second)}"


def compared(first: dict[str, Any], second: dict[str, Any]) -> Iterator[FactDifference]:
    """Yield the facts that differ, in the order of the first report's steps.

    Steps that one of them has not run, or that an earlier end kept it from, are not compared.
    """
    others = {step["name"]: step for step in second["steps"]}
    for step in first["steps"]:
        other = others.get(step["name"])
        if other is None:
            continue
        yield from _differing(step["name"], "outcome", step["outcome"], other["outcome"])
        facts, other_facts = step["facts"], other["facts"]
        # Of a step that was not reached, or left out, there are no facts to compare.
        if not facts or not other_facts:
            continue
        for name in dict.fromkeys([*facts, *other_facts]):
            yield from _differing(
                step["name"], name, facts.get(name, _MISSING), other_facts.get(name, _MISSING)
            )


def _differing(step: str, name: str, first: Any, second: Any) -> Iterator[FactDifference]:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            values = first.get(key, _MISSING), second.get(key, _MISSING)
            yield from _differing(step, f"{name}.{key}", *values)
        return
    numbers = [
        isinstance(each, int | float) and not isinstance(each, bool) for each in (first, second)
    ]
    is_duration = all(numbers) and name.endswith(_DURATIONS)
    if is_duration:
        low, high = sorted((abs(first), abs(second)))
        if high > FACTOR * low:
            yield FactDifference(step, name, first, second, is_duration=True)
    elif first != second:
        yield FactDifference(step, name, first, second)


def compare_files(files: Sequence[Path], *, as_json: bool) -> int:
    """Print the differences of a report and the local AWS's, or of two; return the exit code."""
    first, second = (read_report(file) for file in (*files, LOCAL_AWS)[:2])
    found = list(compared(first, second))
    names = [f"{report['aws']} {report['began'][:10]}" for report in (first, second)]
    shared = {step["name"] for step in first["steps"]} & {step["name"] for step in second["steps"]}
    if as_json:
        rows = [asdict(each) for each in found]
        click.echo(
            json.dumps({"reports": names, "steps": sorted(shared), "differences": rows}, indent=1)
        )
    else:
        click.echo(f"{len(shared)} steps in both; {names[0]} first, then {names[1]}")
        for each in found:
            click.echo(each)
        durations = sum(each.is_duration for each in found)
        click.echo(
            f"{len(found) - durations} facts differ, and {durations} durations by a factor of {FACTOR:g}"
        )
    return int(bool(found)) if shared else 3


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


def _short(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if len(text) <= 80 else f"{text[:79]}…"
