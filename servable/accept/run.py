"""One acceptance run: commands and waits that end with the budget, and the record of what they showed."""

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from botocore.config import Config

from infra.policy.acceptance_policy import TAG
from servable.accept.project import (
    InstanceChoice,
    bucket_name,
    endpoint_name,
    environment_name,
)
from servable.accept.record import AcceptReport, StepRecord
from servable.aws_account import (
    CONNECT_TIMEOUT_SECONDS,
    READ_TIMEOUT_SECONDS,
    Account,
    unless_absent,
)
from servable.new.project_files import TEMPLATE, pinned_cli
from servable_client import Endpoint
from servable_local.container.parent_watchdog import die_with

Seen = TypeVar("Seen")
POLL_SECONDS = 5.0
DELETING_MINUTES = 12.0
"""Part of the deadline that is kept for the deletion: endpoints take minutes, buckets and keys seconds."""
_LINES_SHOWN = 12
# A throttled call is tried again for about half a minute.
_ATTEMPTS = 6
_DEPLOY = ("--require-approval", "never", "--progress", "events")
_LIVE = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
# Resources whose minutes a plan or a rehearsal can use.
_TIMED = (
    "AWS::SageMaker::Endpoint",
    "AWS::SageMaker::InferenceComponent",
    "AWS::CloudFormation::Stack",
)


class DoesNotHoldError(Exception):
    """A step saw something else than it should. `str()` is a whole sentence."""


class CannotTellError(Exception):
    """A step could not look. `str()` says why."""


class LimitReachedError(Exception):
    """The budget or the deadline is reached: the run ends, and everything is deleted."""


@dataclass(kw_only=True)
class Meter:
    """US dollars and minutes of a run: no less than is billed, but for a batch's job, announced only."""

    dollars: float
    minutes: float
    clock: Callable[[], float] = time.monotonic
    """Seconds of AWS's clock."""
    began: float = 0.0
    _running: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Environment to (when it began, US dollars an hour)."""
    _spent: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock()

    def start(self, name: str, usd_per_hour: float) -> None:
        self._running.setdefault(name, (self.clock(), usd_per_hour))

    def stop(self, name: str) -> None:
        if name in self._running:
            began, usd_per_hour = self._running.pop(name)
            self._spent += (self.clock() - began) / 3600 * usd_per_hour

    @property
    def usd(self) -> float:
        now = self.clock()
        return self._spent + sum(
            (now - began) / 3600 * usd for began, usd in self._running.values()
        )

    @property
    def seconds_left(self) -> float:
        """Until the deadline or the end of the budget, less what deleting takes of both."""
        per_hour = sum(usd for _, usd in self._running.values())
        until = self.began + (self.minutes - DELETING_MINUTES) * 60 - self.clock()
        if per_hour > 0:
            rest = self.dollars - self.usd - per_hour * DELETING_MINUTES / 60
            until = min(until, rest / per_hour * 3600)
        return until

    def check(self) -> None:
        """Raise `LimitReachedError` if a limit is reached."""
        if self.seconds_left > 0:
            return
        spent = f"${self.usd:.2f} of ${self.dollars:g}"
        elapsed = (self.clock() - self.began) / 60
        raise LimitReachedError(
            f"the limit is reached: at most {spent} and {elapsed:.0f} of {self.minutes:g} minutes, of which "
            f"{DELETING_MINUTES:g} are kept for deleting; give more with --dollars or --minutes"
        )


class AcceptAccount(Account):
    """The account of a run: calls are tried often, and each is counted."""

    def __init__(
        self,
        *,
        region: str,
        number: str,
        session: Any,
        endpoint_url: str | None,
        environ: Mapping[str, str],
        seconds_per_minute: float,
        now: Callable[[], datetime],
    ) -> None:
        """`environ`: of commands. `seconds_per_minute`: real ones of a minute of its clock.
        `now`: its time, in UTC."""
        super().__init__(region=region, number=number, endpoint_url=endpoint_url)
        self.session, self.environ = session, dict(environ)
        self.seconds_per_minute, self.now = seconds_per_minute, now
        self.calls: Counter[str] = Counter()

    def _client(self, service: str) -> Any:
        retries = {"total_max_attempts": _ATTEMPTS, "mode": "standard"}
        config = Config(
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            read_timeout=READ_TIMEOUT_SECONDS,
            retries=retries,
            s3={"addressing_style": "path"} if self.endpoint_url else None,
        )
        client = self.session.client(service, config=config, endpoint_url=self.endpoint_url)

        def count(model: Any, **_: Any) -> None:
            self.calls[f"{service}:{model.name}"] += 1

        client.meta.events.register("provide-client-params", count)
        return client


class AcceptRun:
    """What a step works with. Everything that it starts ends with it."""

    def __init__(
        self,
        *,
        account: AcceptAccount,
        folder: Path,
        choice: InstanceChoice,
        report: AcceptReport,
        meter: Meter,
        run_id: str,
        usd_per_hour: Mapping[str, float],
    ) -> None:
        """`folder`: the project's. `run_id`: the tag's value. `usd_per_hour`: of each environment."""
        self.account, self.folder, self.choice = account, folder, choice
        self.report, self.meter = report, meter
        self.run_id, self.usd_per_hour = run_id, usd_per_hour
        self.record = StepRecord(name="", proves="", outcome="cannot be told")
        self.overrides: dict[str, str] = {}
        """Keys of `main` in force, as `-c ENV.KEY=VALUE`."""
        self.failed: dict[str, str] = {}
        """Environment whose deployment failed, to the CDK CLI's last lines."""
        self._events_seen: dict[str, set[str]] = {}
        """Environment to the ids of its stack's events that are recorded."""

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def fact(self, name: str, value: Any) -> None:
        self.record.facts[name] = value

    def clock_minutes(self, seconds: float) -> float:
        """Real seconds as minutes of the clock that AWS, or the local AWS, runs on."""
        return round(seconds / self.account.seconds_per_minute, 2)

    @contextmanager
    def timed(self, fact: str) -> Iterator[None]:
        """Record how many minutes of AWS's clock the block took."""
        began = time.monotonic()
        yield
        self.fact(fact, self.clock_minutes(time.monotonic() - began))

    def wait(self, look: Callable[[], Seen | None], *, minutes: float, what: str) -> Seen:
        """Return what `look` returns once it is not None.

        Raises `DoesNotHoldError` after so many minutes of AWS's clock, `LimitReachedError` before.
        """
        minute_seconds = self.account.seconds_per_minute
        pause = min(POLL_SECONDS, POLL_SECONDS * minute_seconds / 60 + 0.1)
        until = time.monotonic() + minutes * minute_seconds
        while True:
            self.meter.check()
            if (seen := look()) is not None:
                return seen
            if time.monotonic() > until:
                raise DoesNotHoldError(f"{what}: not within {minutes:g} minutes")
            time.sleep(pause)

    def servable(self, *words: str, codes: Iterable[int] = (0,)) -> Any:
        """Run a command of ours in the project and return its JSON, or its output.

        Raises `DoesNotHoldError` for exit code 1, `CannotTellError` for another that is not allowed.
        """
        command = [sys.executable, "-m", "servable", "--project", str(self.folder), *words]
        code, output, errors = self._ran(command)
        name = f"servable {words[0]}"
        if code not in codes:
            kind = DoesNotHoldError if code == 1 else CannotTellError
            raise kind(f"`{name}` ended with {code}: {_last(errors or output)}")
        try:
            return json.loads(output)
        except ValueError:
            return output

    def cdk(self, *words: str) -> None:
        """Run the CDK CLI in the project. Raises `DoesNotHoldError` with its last lines."""
        code, output, errors = self._ran([*cdk_command(self.account.environ), *words])
        if code:
            raise DoesNotHoldError(f"`cdk {words[0]}` ended with {code}: {_last(errors + output)}")

    def _ran(self, command: list[str]) -> tuple[int, str, str]:
        """Return (exit code, stdout, stderr). In a process group of its own, which ends with us."""
        self.meter.check()
        ends_with_us = functools.partial(die_with, os.getpid())
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.account.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                # A kill of this process must not leave a CLI behind that goes on deploying.
                preexec_fn=ends_with_us if sys.platform == "linux" else None,
            )
            try:
                while process.poll() is None:
                    self.meter.check()
                    time.sleep(0.05)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        return process.returncode, texts[0], texts[1]

    # --- what is deployed

    def deploy(self, kinds: Iterable[str]) -> None:
        """Deploy these environments together; what becomes of each is asked of its stack."""
        kinds = list(kinds)
        for kind in kinds:
            self.meter.start(kind, self.usd_per_hour.get(kind, 0.0))
        patterns = [f"{environment_name(kind)}/*" for kind in kinds]
        try:
            self.cdk("deploy", *patterns, *_DEPLOY, "--concurrency", str(len(kinds)))
        except DoesNotHoldError as error:
            for kind in kinds:
                if self.stack_status(kind) not in _LIVE:
                    self.failed[kind] = str(error)

    def update(self, kind: str, overrides: Mapping[str, str] | None = None) -> None:
        """Deploy one environment again with other keys. Raises `DoesNotHoldError` if the CLI fails."""
        self.require(kind)
        name = environment_name(kind)
        keys = self.overrides if overrides is None else overrides
        words = [word for key, value in keys.items() for word in ("-c", f"{name}.{key}={value}")]
        try:
            self.cdk("deploy", f"{name}/*", *_DEPLOY, *words)
        finally:
            self._stack_events(kind)

    def require(self, kind: str) -> None:
        """Record how the environment was deployed. Raises `DoesNotHoldError` if it is not live."""
        if kind in self.failed:
            raise DoesNotHoldError(f"{environment_name(kind)} is not deployed: {self.failed[kind]}")
        if self.stack_status(kind) not in _LIVE:
            raise CannotTellError(f"{environment_name(kind)} is not deployed")
        if kind not in self._events_seen:
            self._stack_events(kind)

    def stack_status(self, kind: str) -> str:
        """The status of ENV/endpoint; "" if there is none."""
        describe = self.client("cloudformation").describe_stacks
        described = unless_absent(describe, StackName=f"{environment_name(kind)}-endpoint")
        return str(described["Stacks"][0]["StackStatus"]) if described else ""

    def _stack_events(self, kind: str) -> None:
        """Record the new events of ENV/endpoint, and the minutes that resources took."""
        begun: dict[str, datetime] = {}
        every = self.account.all_unless_absent(
            "cloudformation",
            "describe_stack_events",
            "StackEvents",
            StackName=f"{environment_name(kind)}-endpoint",
        )
        seen = self._events_seen.get(kind, set())
        listed = [event for event in every if event["EventId"] not in seen]
        self._events_seen[kind] = {event["EventId"] for event in every}
        times = [event["Timestamp"].replace(tzinfo=None) for event in listed]
        first = min(times, default=None)
        for event, at in zip(listed[::-1], times[::-1], strict=True):
            name, status = event["ResourceType"], event["ResourceStatus"]
            reason, resource = event.get("ResourceStatusReason", ""), event["LogicalResourceId"]
            if name in _TIMED or "FAILED" in status:
                self.event(at, f"{name} {status}", reason, since=first)
            if status.endswith("_IN_PROGRESS"):
                begun.setdefault(resource, at)
            elif resource in begun and name in _TIMED:
                took = (at - begun.pop(resource)).total_seconds() / 60
                self.fact(f"{kind}.{name.removeprefix('AWS::')}_minutes", round(took, 2))

    def event(
        self, at: datetime, what: str, detail: str = "", *, since: datetime | None = None
    ) -> None:
        """Record an event of AWS's clock. `since`: where its minutes begin (default: with the step)."""
        seconds = (at.replace(tzinfo=None) - (since or self.step_began)).total_seconds()
        row = {"minute": round(seconds / 60, 2), "what": what}
        self.record.events.append(row | {"detail": detail} if detail else row)

    def begin(self, record: StepRecord) -> None:
        self.record, self.step_began = record, self.account.now().replace(tzinfo=None)

    def endpoint(self, kind: str) -> Endpoint:
        """A client of the environment's endpoint."""
        return Endpoint(
            endpoint_name(kind),
            session=self.account.session,
            endpoint_url=self.account.endpoint_url,
        )

    def make_bucket(self) -> str:
        """The bucket of the batch's rows, with the tag."""
        s3, region = self.client("s3"), self.account.region
        name = bucket_name(self.account.number, region)
        where = {} if region == "us-east-1" else {"LocationConstraint": region}
        s3.create_bucket(Bucket=name, **({"CreateBucketConfiguration": where} if where else {}))
        s3.put_bucket_tagging(Bucket=name, Tagging={"TagSet": [{"Key": TAG, "Value": self.run_id}]})
        return name


def cdk_command(variables: Mapping[str, str]) -> list[str]:
    """The CDK CLI: that of PATH, else npm's, in the version that a project pins. Raises `CannotTellError`."""
    path = variables.get("PATH", "")
    if found := shutil.which("cdk", path=path):
        return [found]
    if found := shutil.which("npx", path=path):
        return [found, "--yes", f"aws-cdk@{pinned_cli(TEMPLATE)}"]
    raise CannotTellError(
        f"the CDK CLI is missing: `npm install --global aws-cdk@{pinned_cli(TEMPLATE)}`"
    )


def _last(text: str) -> str:
    """The last lines of a command, without colours, as one line."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    lines = [line.strip() for line in plain.splitlines() if line.strip()]
    return "; ".join(lines[-_LINES_SHOWN:])
