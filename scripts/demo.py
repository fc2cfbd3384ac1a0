"""`make demo`: examples/ranker deployed with the real CDK CLI to a local AWS, and asked.

Every step says its command, what came of it, and how long it took. Whatever ends this
process, Ctrl-C at any step included, ends everything it started.
"""

import json
import time
from pathlib import Path
from typing import Any

from rich.table import Table

from scripts.demo_steps import cdk, console, run_demo, show_line, step
from servable_local.aws import LocalAws, LocalAwsStartError, running
from servable_local.aws.inventory import inventory
from servable_local.aws.local_aws import ACCOUNT, REGION

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "examples" / "ranker" / "golden"
ENDPOINT = "ranker-local"
VARIANT = "primary"
STACKS = "local/*"
TOLERANCE = 1e-5  # the last bits of a float32 differ between kinds of CPU
CHANGED_MAXIMUM = 4


class DemoError(Exception):
    """A step did not show what it should. `str()` says what."""


class Demo:
    """The steps, over one local AWS."""

    def __init__(self, aws: LocalAws) -> None:
        self._aws = aws
        # In its folder, which it removes however this process ends.
        self._out = aws.folder / "cdk.out"
        self._bootstrapped: list[tuple[str, str]] = []

    def cdk(self, *arguments: str, folder: Path = ROOT) -> str:
        """Runs the CLI as a user would, showing what it says; its whole output."""
        console.print(f"  $ cdk {' '.join(arguments)}", style="bold")
        environment = self._aws.environment()
        return cdk([*arguments, "--output", str(self._out)], environment, show_line, folder)

    def bootstrap(self) -> None:
        # Not in the project, which the CLI would synthesise first.
        self.cdk("bootstrap", f"aws://{ACCOUNT}/{REGION}", folder=self._aws.folder)
        self._bootstrapped = inventory(self._aws)

    def deploy(self) -> None:
        self.cdk("deploy", STACKS, "--require-approval", "never")

    def show_what_exists(self) -> None:
        """Read back from each service, not from CloudFormation."""
        table = Table("type", box=None, padding=(0, 2), header_style="bold")
        table.add_column("name", overflow="fold")
        before = ""
        for kind, name in inventory(self._aws):
            if (kind, name) not in self._bootstrapped:
                # The beginning of an ARN is the same everywhere.
                short = name.split(":", 5)[-1] if name.startswith("arn:") else name
                table.add_row("" if kind == before else kind, short)
                before = kind
        console.print(table)

    def predict(self) -> None:
        runtime = self._aws.client("sagemaker-runtime")
        for form in ("rows", "columnar"):
            request = (GOLDEN / f"request-{form}.json").read_bytes()
            wanted = _numbers(json.loads((GOLDEN / f"answer-{form}.json").read_text()))
            answer = runtime.invoke_endpoint(
                EndpointName=ENDPOINT, ContentType="application/json", Body=request
            )
            got = _numbers(json.loads(answer["Body"].read()))
            difference = max(abs(a - b) for a, b in zip(got, wanted, strict=True))
            console.print(f"  {form}: click probabilities {', '.join(f'{one:.6f}' for one in got)}")
            if difference > TOLERANCE:
                raise DemoError(f"the {form} answer differs from TensorFlow's by {difference}")
            equal = f"equal to TensorFlow's own answer (largest difference {difference:.1g})"
            console.print(f"  {form}: {equal}")

    def deploy_again(self) -> None:
        said = self.cdk("deploy", STACKS, "--require-approval", "never")
        if "(no changes)" not in said:
            raise DemoError("the second deployment changed something")

    def deploy_one_change(self) -> None:
        before = self._maximum()
        key = f"local.variants.{VARIANT}.max_instances={CHANGED_MAXIMUM}"
        self.cdk("deploy", STACKS, "--require-approval", "never", "-c", key)
        if self._maximum() != CHANGED_MAXIMUM:
            raise DemoError(f"max_instances is {self._maximum()} and not {CHANGED_MAXIMUM}")
        console.print(f"  scaling now runs at most {CHANGED_MAXIMUM} instances; before, {before}")

    def _maximum(self) -> int:
        targets = self._aws.client("application-autoscaling").describe_scalable_targets(
            ServiceNamespace="sagemaker", ResourceIds=[f"endpoint/{ENDPOINT}/variant/{VARIANT}"]
        )
        return int(targets["ScalableTargets"][0]["MaxCapacity"])

    def destroy(self) -> None:
        self.cdk("destroy", STACKS, "--force")


NEXT = f"""
Next: deploy it to a local AWS that keeps running, and check it:

    export PATH=$PWD/.venv/bin:$PATH
    eval "$(servable local up)"
    cdk bootstrap aws://{ACCOUNT}/{REGION}
    cdk deploy '{STACKS}' --require-approval never
    servable verify local --local
    servable local down
"""


def _numbers(answer: dict[str, Any]) -> list[float]:
    (found,) = answer.values()
    return [float(one) for one in found]


def main() -> None:
    start = time.monotonic()
    console.print("\nA local AWS on this computer", style="bold cyan")
    with running() as aws:
        console.print(f"  {aws.url}\n  {time.monotonic() - start:.1f} s", style="green")
        demo = Demo(aws)
        step("Bootstrap its account, as every CDK account is", demo.bootstrap)
        step("Deploy environments/local.toml", demo.deploy)
        step("What exists now, asked of each service", demo.show_what_exists)
        step("Ask the endpoint for predictions, with boto3", demo.predict)
        step("Deploy again: nothing changes", demo.deploy_again)
        step("Change one parameter for one run", demo.deploy_one_change)
        step("Destroy everything", demo.destroy)
    console.print(
        f"\nDone in {time.monotonic() - start:.0f} s. Nothing is left running.", style="bold"
    )
    console.print(NEXT, highlight=False, markup=False)


if __name__ == "__main__":
    run_demo(main, DemoError, LocalAwsStartError)
