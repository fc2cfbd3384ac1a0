"""Copies of the project for tests to break, and the real CDK CLI to run in them."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import LocalAws
from servable_local.aws.local_aws import ACCOUNT, REGION
from servable_local.aws.local_aws import bootstrap as bootstrap_account

ROOT = Path(__file__).resolve().parents[1]
_MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
# Those that `make test-pythons` tries.
PYTHONS = tuple(re.findall(r"^PYTHONS := (.*)$", _MAKEFILE, re.MULTILINE)[0].split())
# build/ links to the pages of this checkout.
_INSTALLED = ".git .venv node_modules cdk.out .servable build .*_cache .hypothesis __pycache__"
NOT_COPIED = shutil.ignore_patterns(*_INSTALLED.split())
# Ours before any other on the machine, also where the virtual environment is not activated.
PATH = f"{ROOT / '.venv/bin'}:{ROOT / 'node_modules/.bin'}:{os.environ['PATH']}"
GOLDEN = ROOT / "examples" / "ranker" / "golden"
Ran = subprocess.CompletedProcess[str]


def checkout(target: Path) -> Path:
    """The project as it stands, without what is installed or made."""
    shutil.copytree(ROOT, target, ignore=NOT_COPIED)
    return target


def bootstrap(
    folder: Path, *arguments: str, environment: Mapping[str, str], account: str = ACCOUNT,
    region: str = REGION,
) -> None:  # fmt: skip
    """`cdk bootstrap` in a folder that is no project: in one, the CLI synthesises it first."""
    where = f"aws://{account}/{region}"
    succeed_in(folder, "cdk", "bootstrap", where, *arguments, environment=environment)


def bootstrapped(aws: LocalAws, *, account: str = ACCOUNT, region: str = REGION) -> None:
    """Create the stack of `cdk bootstrap` without the two seconds that the CLI takes."""
    assert bootstrap_account(aws, account=account, region=region, folder=ROOT)


def run_in(
    folder: Path, *command: str | Path, environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 100.0, given: str | None = None,
) -> Ran:  # fmt: skip
    """Run a command to its end. `environment`: None is this process's; `given`: standard input."""
    return subprocess.run(
        command, cwd=folder, env=environment, input=given, capture_output=True, text=True,
        check=False, timeout=timeout_seconds,
    )  # fmt: skip


def succeed_in(folder: Path, *command: str | Path, **options: Any) -> Ran:
    """`run_in` for a command that must exit with 0."""
    ran = run_in(folder, *command, **options)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran


def assert_predicts(aws: LocalAws, endpoint: str, **where: str) -> None:
    """Invoke an endpoint with the ranker's golden request, and compare the predictions."""
    answer = aws.client("sagemaker-runtime", **where).invoke_endpoint(
        EndpointName=endpoint,
        ContentType="application/json",
        Body=(GOLDEN / "request-rows.json").read_bytes(),
    )
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert json.loads(answer["Body"].read())["predictions"] == pytest.approx(wanted, rel=1e-5)
