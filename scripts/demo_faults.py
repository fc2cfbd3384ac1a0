"""`make demo-faults`: a deployed model slowed, killed and made to fail, under load.

Shows what callers saw, which alarm was in ALARM after how long, and the recovery. One minute of
the alarms lasts 2 s here; latencies are real. `--json` prints it for programs.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from scripts import timeline
from scripts.demo_steps import ROOT, cdk, console, errors, run_demo, show_line, step
from scripts.fault_demonstration import (
    ENDPOINT,
    FAULTS,
    P99_LATENCY_MS,
    Demonstration,
    DemonstrationError,
    FaultOutcome,
)
from scripts.timeline import SteadyLoad
from servable_local.aws import LocalAws, LocalAwsStartError, running
from servable_local.aws.clock import floor
from servable_local.aws.local_aws import ACCOUNT, REGION

BODY = ROOT / "examples" / "ranker" / "golden" / "request-rows.json"
SECONDS_PER_MINUTE = 2.0
REQUESTS_PER_SECOND = 20
MINUTE_SECONDS = 60


def show(aws: LocalAws, *, as_json: bool) -> None:
    screen = errors if as_json else console
    runtime, body = aws.client("sagemaker-runtime"), BODY.read_bytes()

    def ask() -> None:
        answer = runtime.invoke_endpoint(
            EndpointName=ENDPOINT, ContentType="application/json", Body=body
        )
        answer["Body"].read()

    began = floor(aws.now(), MINUTE_SECONDS)
    demonstration = Demonstration(aws, began)
    with SteadyLoad(ask, aws_clock(aws), requests_per_second=REQUESTS_PER_SECOND) as load:
        step(f"{REQUESTS_PER_SECOND} requests per second, all well", demonstration.quiet, screen)
        for fault in FAULTS:
            title = f"{fault.name[0].upper()}{fault.name[1:]}: {fault.said}"
            step(title, lambda fault=fault: demonstration.make(fault), screen)  # type: ignore[misc]
        time.sleep(SECONDS_PER_MINUTE)
    minutes = timeline.minutes(
        began, load.requests, [*demonstration.events, *demonstration.alarm_changes()]
    )
    report = report_json if as_json else report_text
    report(minutes, demonstration.findings)


def report_json(found: Sequence[timeline.Minute], findings: Sequence[FaultOutcome]) -> None:
    told = {
        "seconds_per_minute": SECONDS_PER_MINUTE,
        "requests_per_second": REQUESTS_PER_SECOND,
        "minutes": [asdict(one) for one in found],
        "troubles": [asdict(finding) for finding in findings],
    }
    print(json.dumps(told, indent=2))


def report_text(found: Sequence[timeline.Minute], findings: Sequence[FaultOutcome]) -> None:
    console.print("\nWhat callers saw, minute by minute", style="bold cyan")
    for line in timeline.lines(found):
        console.print(f"  {line}", markup=False)
    console.print()
    for finding in findings:
        console.print(
            f"  {finding.trouble}: the alarm on {finding.alarm} went off after "
            f"{finding.alarm_after_minutes:g} minutes, and was OK {finding.recovered_after_minutes:g} "
            "minutes after the fault ended"
        )


def aws_clock(aws: LocalAws) -> Callable[[], datetime]:
    """Its time without asking it for every request: told once, then counted on."""
    told, at = aws.now(), time.monotonic()
    speed = MINUTE_SECONDS / SECONDS_PER_MINUTE

    def now() -> datetime:
        return told + timedelta(seconds=(time.monotonic() - at) * speed)

    return now


def main() -> None:
    parser = argparse.ArgumentParser(prog="make demo-faults", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs; progress on stderr")
    as_json = parser.parse_args().json
    screen = errors if as_json else console
    start = time.monotonic()
    screen.print("\nA local AWS on this computer", style="bold cyan")
    with running(seconds_per_minute=SECONDS_PER_MINUTE) as aws:
        screen.print(
            f"  {aws.url}\n  one minute of its alarms lasts {SECONDS_PER_MINUTE:g} s; latencies are real",
            style="green",
        )

        def run(*arguments: str, folder: Path = ROOT) -> None:
            command = [*arguments, "--output", str(aws.folder / "cdk.out")]
            cdk(command, aws.environment(), lambda line: show_line(line, screen), folder)

        where = f"aws://{ACCOUNT}/{REGION}"
        # Not in the project, which the CLI would synthesise first.
        bootstrap = partial(run, "bootstrap", where, folder=aws.folder)
        step("Bootstrap its account", bootstrap, screen)
        alarm = f"local.alarms.p99_latency_ms={P99_LATENCY_MS}"
        deploy = ("deploy", "local/*", "--require-approval", "never", "-c", alarm)
        step(f"Deploy environments/local.toml, with -c {alarm}", lambda: run(*deploy), screen)
        show(aws, as_json=as_json)
    screen.print(
        f"\nDone in {time.monotonic() - start:.0f} s. Nothing is left running.", style="bold"
    )


if __name__ == "__main__":
    run_demo(main, DemonstrationError, LocalAwsStartError, screen=errors)
