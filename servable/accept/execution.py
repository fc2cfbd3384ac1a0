"""A run from its first step to the deletion, whatever ends it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import click

from servable.accept.announcement import Announcement
from servable.accept.project import environment_name
from servable.accept.record import StepRecord
from servable.accept.removal import kept, remove
from servable.accept.run import (
    AcceptRun,
    CannotTellError,
    DoesNotHoldError,
    LimitReachedError,
)
from servable.accept.steps import DESTROY, AcceptStep
from servable.aws_account import AwsError
from servable.conformance.observed_cases import OBSERVED
from servable.findings import styled_echo
from servable.verdict import EXIT_CODES

# A stack whose update is rolled back must end first, before it is deleted.
REMOVAL_MINUTES = 60.0
_COLOURS = {"holds": "green", "does not hold": "red", "cannot be told": "yellow"}


class Execution:
    """The steps of one run, in waves of environments; the report is written after each."""

    def __init__(
        self, run: AcceptRun, steps: Iterable[AcceptStep], announcement: Announcement, file: Path
    ) -> None:
        self.run, self.file = run, file
        self.announcement = announcement
        self._steps = list(steps)
        keys = ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        self._secrets = (*(run.account.environ.get(key, "") for key in keys), str(run.folder))

    def whole(self, *, as_json: bool) -> int:
        """Run, delete and report; return the exit code. 130 after Ctrl-C."""
        report, interrupted = self.run.report, False
        try:
            self._all_steps()
        except LimitReachedError as limit:
            report.ended = str(limit)
        except KeyboardInterrupt:
            report.ended, interrupted = "interrupted", True
        except Exception as error:  # whatever it is, what was made is deleted
            report.ended = f"it could not go on: {error}"
        if report.ended:
            click.echo(f"{report.ended}; deleting everything", err=True)
        try:
            self._destroy()
        except KeyboardInterrupt:
            interrupted = True
            report.left.append("the deletion was interrupted: what is left is not known")
        self._save()
        if as_json:
            click.echo(json.dumps(report.as_json(self._secrets), indent=1, default=str))
        self._end()
        return 130 if interrupted else EXIT_CODES[report.verdict]

    def _all_steps(self) -> None:
        for step in self._steps:
            if not step.environment or step.environment in self.run.choice.left_out:
                self._step(step)
        for wave in self.announcement.waves:
            steps = [
                step
                for step in self._steps
                if _deployed_in(step) in wave and step.environment not in self.run.choice.left_out
            ]
            if "conformance" in wave:
                self._write_models()
            click.echo(f"deploying {', '.join(wave)}", err=True)
            self.run.deploy(wave)
            for number, step in enumerate(steps):
                self._step(step)
                kind = _deployed_in(step)
                if kind not in map(_deployed_in, steps[number + 1 :]):
                    self._forget(kind)
            if wave != self.announcement.waves[-1]:
                self._remove(wave)

    def _step(self, step: AcceptStep) -> None:
        """Run one step and record how it ended."""
        record = StepRecord(name=step.name, proves=step.proves, outcome="cannot be told")
        if reason := self.run.choice.left_out.get(step.environment):
            record.reason = f"left out: {reason}"
            self._recorded(record)
            return
        self.run.begin(record)
        began = time.monotonic()
        try:
            self.run.meter.check()
            step.run(self.run)
            record.outcome = "holds"
        except DoesNotHoldError as error:
            record.outcome, record.reason = "does not hold", str(error)
        except CannotTellError as error:
            record.reason = str(error)
        except AwsError as error:
            record.reason = f"AWS answered: {error}"
        except (LimitReachedError, KeyboardInterrupt) as error:
            record.reason = str(error) or "interrupted"
            raise
        except Exception as error:  # the deletion must not miss its turn
            record.reason = f"a fault of this program: {error!r}"
        finally:
            record.minutes = self.run.clock_minutes(time.monotonic() - began)
            self._recorded(record)

    def _recorded(self, record: StepRecord) -> None:
        self.run.report.steps.append(record)
        self._save()
        reason = f": {record.reason}" if record.reason else ""
        line = f"{record.name:16} {record.outcome}, {record.minutes:g} min{reason}"
        styled_echo(line, fg=_COLOURS[record.outcome], err=True)

    def _save(self) -> None:
        self.run.report.usd_at_most = round(self.run.meter.usd, 4)
        self.run.report.write(self.file, self._secrets)

    def _forget(self, kind: str) -> None:
        """Begin to delete an environment that no further step needs; whether it goes is seen at the end."""
        name = f"{environment_name(kind)}-endpoint"
        try:
            self.run.client("cloudformation").delete_stack(StackName=name)
        except AwsError:
            return
        self.run.meter.stop(kind)

    def _remove(self, kinds: Iterable[str]) -> None:
        """Delete these environments and wait until they are gone, so that their instances are free."""
        stacks = {f"{environment_name(kind)}-endpoint" for kind in kinds}

        remove(
            self.run.account,
            minutes=REMOVAL_MINUTES,
            only=lambda leftover: leftover.kind == "stack" and leftover.name in stacks,
        )

    def _destroy(self) -> None:
        """Delete everything, and record it as the last step."""
        proves = "everything is deleted again, and what AWS keeps is known"
        record = StepRecord(name=DESTROY, proves=proves, outcome="holds")
        self.run.begin(record)
        began = time.monotonic()
        report = self.run.report
        report.left = remove(self.run.account, minutes=REMOVAL_MINUTES)
        for kind in self.announcement.usd_per_hour:
            self.run.meter.stop(kind)
        report.kept = kept(self.run.account)
        record.minutes = self.run.clock_minutes(time.monotonic() - began)
        if report.left:
            record.outcome, record.reason = "does not hold", "; ".join(report.left)
        self._recorded(record)

    def _write_models(self) -> None:
        """The models of the recorded requests, which TensorFlow writes in 20 s."""
        if find_spec("tensorflow") is None:
            self.run.failed["conformance"] = (
                "its models need TensorFlow: pip install 'servable-endpoints[local]'"
            )
            return
        target = self.run.folder / "conformance"
        script = [sys.executable, str(OBSERVED / "models.py.txt"), str(target)]
        ran = subprocess.run(script, capture_output=True, text=True, check=False)
        if ran.returncode:
            self.run.failed["conformance"] = f"its models were not written: {ran.stderr[-300:]}"

    def _end(self) -> None:
        """Say how it ended, where the report is, and what is left."""
        report = self.run.report
        for line in report.kept:
            click.echo(f"AWS keeps: {line}", err=True)
        for line in report.left:
            click.echo(f"could not be deleted: {line}", err=True)
        if report.left:
            click.echo(
                "`servable accept --clean` goes on with the deletion, from any computer", err=True
            )
        else:
            click.echo("nothing is left", err=True)
        click.echo(f"{self.file}: {report.verdict}, at most ${report.usd_at_most:.2f}", err=True)


def _deployed_in(step: AcceptStep) -> str:
    """A batch is in the file of the serverless endpoint."""
    return "serverless" if step.environment == "batch" else step.environment
