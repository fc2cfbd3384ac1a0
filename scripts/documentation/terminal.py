"""Writes docs/terminal.svg: a check, a deployment, a prediction and a plan, as their programs print them.

PATH="$PWD/.venv/bin:$PATH" python -m scripts.documentation.terminal
"""

import io
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from servable_local.aws import running
from servable_local.aws.local_aws import ACCOUNT, REGION

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "terminal.svg"
CHECK = "servable check local --set local.variants.primary.min_instances=9"
COMMANDS = (
    CHECK,
    "cdk deploy 'local/*' --require-approval never",
    "servable invoke local --body examples/ranker/golden/request-rows.json",
    "servable plan local --set local.variants.primary.instance_type=ml.c5.2xlarge",
)


def printed(command: str) -> str:
    """The lines of a command, on both streams in their order; of a deployment, those that matter."""
    output = subprocess.getoutput(command)
    return "\n".join(shortened(output.splitlines())) if "cdk deploy" in command else output


def shortened(lines: Sequence[str]) -> Iterator[str]:
    """The CDK CLI's lines on the model and its endpoint."""
    for line in lines:
        event = [part.strip() for part in line.split("|")]
        if len(event) == 6 and event[3] == "CREATE_COMPLETE" and "SageMaker" in event[4]:
            yield f"{event[1]}  {event[3]}  {event[4]}"
        elif line.startswith("✅"):  # a picture's font may lack it
            yield f"deployed: {line[1:].strip()}"


def svg(steps: Sequence[tuple[str, str]]) -> str:
    """A picture of a terminal with commands and what they print; it loads no font."""
    console = Console(record=True, width=120, file=io.StringIO(), highlight=False)
    for command, output in steps:
        console.print(Text(f"$ {command}", style="bold cyan"))
        console.print(Text(f"{output.strip()}\n"))
    picture = console.export_svg(title="servable", unique_id="terminal")
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)


def main(picture: Path = PICTURE) -> None:
    with running() as aws:
        os.environ |= aws.environment()
        printed(f"cdk bootstrap aws://{ACCOUNT}/{REGION}")
        steps = [(command, printed(command)) for command in COMMANDS]
    picture.write_text(svg(steps), encoding="utf-8")


if __name__ == "__main__":
    main()
