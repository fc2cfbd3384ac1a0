"""`make demo`: examples/ranker deployed to a local AWS with the real CDK CLI, asked, changed, and destroyed.

Every step shows its command, what that prints, and how long it took. Whatever ends this
process, Ctrl-C at any step included, ends everything it started.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from servable_local.aws import LocalAws, LocalAwsStartError, running
from servable_local.aws.local_aws import ACCOUNT, REGION

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = "cdk deploy local/* --require-approval never"


class DemoStep(NamedTuple):
    """One command that a user types. `expected`: words that it must print."""

    title: str
    command: str
    expected: str = ""


STEPS = (
    DemoStep(
        "Bootstrap its account, as every CDK account is", f"cdk bootstrap aws://{ACCOUNT}/{REGION}"
    ),
    DemoStep("Deploy environments/local.toml", DEPLOY),
    DemoStep(
        "Ask the endpoint for predictions",
        "servable invoke local --body examples/ranker/golden/request-rows.json",
        "predictions",
    ),
    DemoStep(
        "Compare what runs with the file, and its answers with TensorFlow's own",
        "servable verify local",
        "as deployed",
    ),
    DemoStep("Deploy again: nothing changes", DEPLOY, "(no changes)"),
    DemoStep(
        "Change one parameter for one run",
        f"{DEPLOY} -c local.variants.primary.max_instances=4",
        "AWS::ApplicationAutoScaling::ScalableTarget",
    ),
    DemoStep("Destroy everything", "cdk destroy local/* --force"),
)
NEXT = f"""
Next: deploy it to a local AWS that keeps running, and check it:

    export PATH=$PWD/.venv/bin:$PATH
    eval "$(servable local up)"
    cdk bootstrap aws://{ACCOUNT}/{REGION}
    cdk deploy 'local/*' --require-approval never
    servable verify local --local
    servable local down
"""
# Wide enough for a resource's name where there is no terminal to ask.
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)


class DemoError(Exception):
    """A step did not show what it should. `str()` says what."""


def run(step: DemoStep, aws: LocalAws) -> None:
    """Runs the command in the project, and shows each line as it comes. Raises DemoError.

    In a process group of its own, which is ended whole when anything interrupts us: the
    CLI runs the app, and the app runs jsii.
    """
    console.print(f"\n{step.title}", style="bold cyan")
    console.print(f"  $ {step.command}", style="bold")
    start = time.monotonic()
    process = subprocess.Popen(
        step.command.split(),
        cwd=ROOT,
        # The CLI's --output, in the folder that goes with the local AWS.
        env=aws.environment_over(os.environ) | {"CDK_OUTPUT": str(aws.folder / "cdk.out")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    output = ""
    try:
        assert process.stdout is not None  # asked for as a pipe
        for line in process.stdout:
            output += line
            show(line.rstrip())
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    if code:
        raise DemoError(f"`{step.command}` exited with code {code}; see its words above")
    if step.expected not in output:
        raise DemoError(f"`{step.command}` did not print {step.expected!r}")
    console.print(f"  {time.monotonic() - start:.1f} s", style="green")


def show(line: str) -> None:
    """Prints a line; of the CDK CLI's events that a resource is made, without every stage before it."""
    event = [part.strip() for part in line.split("|")]
    if len(event) == 6:
        _, progress, _, status, kind, name = event
        line = "" if "IN_PROGRESS" in status else f"{progress:>6}  {status:16} {kind:42} {name}"
    if line:
        console.print(f"  | {line}", style="dim", markup=False)


def main() -> None:
    start = time.monotonic()
    # Set explicitly, because a shell starts background jobs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    console.print("\nA local AWS on this computer", style="bold cyan")
    try:
        with running() as aws:
            console.print(f"  {aws.url}\n  {time.monotonic() - start:.1f} s", style="green")
            for step in STEPS:
                run(step, aws)
    except KeyboardInterrupt:
        console.print("\ninterrupted; everything it started has ended")
        sys.exit(130)
    except (DemoError, LocalAwsStartError) as failed:
        console.print(f"\nthe demo stopped: {failed}", style="red")
        sys.exit(1)
    seconds = time.monotonic() - start
    console.print(f"\nDone in {seconds:.0f} s. Nothing is left running.", style="bold")
    console.print(NEXT, highlight=False, markup=False)


if __name__ == "__main__":
    main()
