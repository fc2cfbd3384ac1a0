"""This machine: Python, Node and the CDK CLI."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from servable.doctor.look import Look, judged

# requires-python of pyproject.toml.
LEAST_PYTHON = (3, 11)
# Of the CDK CLI that package.json pins; Node 20 is past its end of life.
# https://docs.aws.amazon.com/cdk/v2/guide/node-versions.html
LEAST_NODE = 20
TIMEOUT_SECONDS = 30


def machine(root: Path) -> Iterator[Look]:
    """Python, Node and the CDK CLI; asks nobody."""
    said = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info[:2] >= LEAST_PYTHON
    yield judged("Python", fine, said, "install Python 3.11 or newer, then `make install`")
    node = _version(root, "node", "--version")
    number = int(node.split(".")[0]) if node else 0
    yield judged("Node", number >= LEAST_NODE, node or "not found", "`make install` brings its own")
    cdk, wanted = _version(root, "cdk", "--version"), _pinned(root)
    mend = f"`make install`, or `npm ci`; package.json pins {wanted}"
    fine = cdk is not None and wanted in (None, cdk)
    yield judged("CDK CLI", fine, cdk or "not found", mend)


def _version(root: Path, *command: str) -> str | None:
    """Ours before any other on the machine."""
    places = [root / ".venv" / "bin", root / "node_modules" / ".bin"]
    own = [str(one / command[0]) for one in places if (one / command[0]).exists()]
    program = own[0] if own else shutil.which(command[0])
    if program is None:
        return None
    try:
        ran = subprocess.run(
            [program, *command[1:]],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"[0-9]+\.[0-9]+\.[0-9]+", ran.stdout)
    return found[0] if found else None


def _pinned(root: Path) -> str | None:
    try:
        told = json.loads((root / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pins = {**told.get("dependencies", {}), **told.get("devDependencies", {})}
    pin = pins.get("aws-cdk")
    return str(pin) if pin else None
