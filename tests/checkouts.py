"""Copies of the project for tests to break, and the real CDK CLI to run in them."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from servable_local.aws import LocalAws
from servable_local.aws.local_aws import ACCOUNT, REGION
from servable_local.aws.local_aws import bootstrap as bootstrap_account

ROOT = Path(__file__).resolve().parents[1]
_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Those that `make test-pythons` tries.
PYTHONS = tuple(re.findall(r"^PYTHONS := (.*)$", _MAKEFILE, re.MULTILINE)[0].split())
NOT_COPIED = shutil.ignore_patterns(
    ".git",
    ".venv",
    "node_modules",
    "cdk.out",
    ".servable",
    "build",  # links to the pages of this checkout
    ".*_cache",
    ".hypothesis",
    "__pycache__",
)
# Ours before any other on the machine, also where the virtual environment is not activated.
PATH = f"{ROOT / '.venv/bin'}:{ROOT / 'node_modules/.bin'}:{os.environ['PATH']}"

HERE = f"aws://{ACCOUNT}/{REGION}"

Ran = subprocess.CompletedProcess[str]


def checkout(target: Path) -> Path:
    """The project as it stands, without what is installed or made."""
    shutil.copytree(ROOT, target, ignore=NOT_COPIED)
    return target


def bootstrap(
    folder: Path, *arguments: str, environment: Mapping[str, str], where: str = HERE
) -> None:
    """`cdk bootstrap` in a folder that is no project: in one, the CLI synthesises it first."""
    ran = run_in(folder, "cdk", "bootstrap", where, *arguments, environment=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def bootstrapped(aws: LocalAws, *, account: str = ACCOUNT, region: str = REGION) -> None:
    """Create the stack of `cdk bootstrap` without the two seconds that the CLI takes."""
    assert bootstrap_account(aws, account=account, region=region, folder=ROOT)


def run_in(
    project: Path, *command: str, environment: Mapping[str, str], timeout_seconds: float = 100.0
) -> Ran:
    return subprocess.run(
        command,
        cwd=project,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout_seconds,
    )
