"""Deploy examples/ranker to a local AWS with the real CDK CLI, invoke it, change it, and destroy it.

python -m scripts.demo [-v]        -v prints everything that the commands print, stack events included

Each step prints its command, what it showed, and how long it took. Ending this process ends everything
that it started, at every step.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from servable_local.aws import LocalAws, LocalAwsStartError, running
from servable_local.aws.local_aws import ACCOUNT, REGION, BootstrapError, bootstrap

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = "cdk deploy local/* --require-approval never"


class DemoStep(NamedTuple):
    """One command that a user types. `expected` is a pattern of the line that shows its result."""

    title: str
    command: str
    expected: str


STEPS = (
    DemoStep(
        "Deploy environments/local.toml", DEPLOY, "CREATE_COMPLETE +AWS::SageMaker::Endpoint "
    ),
    DemoStep(
        "Invoke the endpoint",
        "servable invoke local --body examples/ranker/golden/request-rows.json",
        "predictions",
    ),
    DemoStep(
        "Compare the deployed resources with the file, and responses with TensorFlow's",
        "servable verify local",
        "as deployed",
    ),
    DemoStep("Deploy again", DEPLOY, r"\(no changes\)"),
    DemoStep(
        "Override one setting for one deployment",
        f"{DEPLOY} -c local.variants.primary.max_instances=4",
        "UPDATE_COMPLETE +AWS::ApplicationAutoScaling::ScalableTarget",
    ),
    DemoStep("Destroy everything", "cdk destroy local/* --force", "destroyed"),
)
NEXT = """
Next, deploy to a local AWS that keeps running; `servable local down` stops it:
    source .venv/bin/activate
    eval "$(servable local up local)"
    cdk deploy 'local/*'
"""
# Without a terminal, wide enough for a resource's name.
console = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 160)


class DemoError(Exception):
    """A step that didn't show what it should; `str()` gives the reason."""


def run_step(step: DemoStep, aws: LocalAws, *, verbose: bool) -> None:
    """Run the command; print its result, or with `verbose` every line. Raises DemoError."""
    console.print(f"[bold cyan]{step.title}:[/] {step.command}")
    start = time.monotonic()
    # The CLI runs the app, and the app runs jsii: their process group ends when anything interrupts us.
    process = subprocess.Popen(
        step.command.split(),
        cwd=ROOT,
        # The CLI's --output, in the folder that is deleted with the local AWS.
        env=aws.environment_over(os.environ) | {"CDK_OUTPUT": str(aws.folder / "cdk.out")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = []
    try:
        assert process.stdout is not None  # requested as a pipe
        for line in process.stdout:
            lines.append(format_line(line))
            if verbose and lines[-1]:
                print_line(lines[-1])
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    shown = next((line for line in lines if re.search(step.expected, line)), None)
    if code or shown is None:
        for line in [] if verbose else filter(None, lines):
            print_line(line)
        problem = f"exited with code {code}" if code else f"did not print {step.expected!r}"
        raise DemoError(f"`{step.command}` {problem}; see its output above")
    console.print(f"  [green]{time.monotonic() - start:4.1f} s[/]", end="  ")
    print_line(shown)


def format_line(line: str) -> str:
    """Return a line of output; of a stack event the result, or "" while it is in progress."""
    event = [part.strip() for part in line.split("|")]
    if len(event) != 6:
        return line.rstrip()
    _, progress, _, status, kind, name = event
    return "" if "IN_PROGRESS" in status else f"{progress:>6}  {status:16} {kind:42} {name}"


def print_line(line: str) -> None:
    console.print(line.strip(), style="dim", markup=False)


def main() -> None:
    start = time.monotonic()
    verbose = "-v" in sys.argv[1:]
    # Set explicitly, because a shell starts background jobs with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    console.print("[bold cyan]A local AWS on this computer[/], bootstrapped for the CDK")
    try:
        with running() as aws:
            if not bootstrap(aws, account=ACCOUNT, region=REGION, folder=ROOT):
                raise DemoError("the CDK CLI isn't installed; run `make demo`, which installs it")
            console.print(f"  [green]{time.monotonic() - start:4.1f} s[/]  [dim]{aws.url}")
            for step in STEPS:
                run_step(step, aws, verbose=verbose)
    except KeyboardInterrupt:
        console.print("\ninterrupted; everything that it started was stopped")
        sys.exit(130)
    except (BootstrapError, DemoError, LocalAwsStartError) as failed:
        console.print(f"\nthe demo stopped: {failed}", style="red", markup=False)
        sys.exit(1)
    seconds = time.monotonic() - start
    console.print(f"Done in {seconds:.0f} s. Nothing is left running.", style="bold")
    console.print(NEXT, end="", markup=False)


if __name__ == "__main__":
    main()
