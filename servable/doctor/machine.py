"""This computer and the project on it: Python, Node, the CDK CLI, and who wrote the files."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from servable.doctor.look import Look, judged
from servable.new.project_files import STAMP, pinned_cli, to_change, written_by

# requires-python of pyproject.toml.
LEAST_PYTHON = (3, 11)
# Of the CDK CLI that package.json pins; Node 20 is past its end of life.
# https://docs.aws.amazon.com/cdk/v2/guide/node-versions.html
LEAST_NODE = 20
TIMEOUT_SECONDS = 30
_NODE = "`make install` in a checkout, `pip install 'servable[synth]'` elsewhere"


def machine(root: Path) -> Iterator[Look]:
    """Python, Node, the CDK CLI and the project's files; asks nobody."""
    said = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info[:2] >= LEAST_PYTHON
    yield judged("Python", fine, said, "install Python 3.11 or newer")
    node = _version(root, "node", "--version")
    number = int(node.split(".")[0]) if node else 0
    yield judged("Node", number >= LEAST_NODE, node or "not found", _NODE)
    cdk, wanted = _version(root, "cdk", "--version"), pinned_cli(root)
    mend = f"`npm ci` in {root}; package.json pins {wanted or 'none: `servable init` writes one'}"
    fine = cdk is not None and wanted in (None, cdk)
    yield judged("CDK CLI", fine, cdk or "not found", mend)
    yield project_files(root)


def project_files(root: Path) -> Look:
    """Whether this version wrote the project's files; else what to change in which."""
    writer, here = written_by(root), version("servable")
    if writer == here:
        return Look(name="project files", state="ok", said=f"of servable {here}")
    if not (root / "cdk.json").is_file():
        mend = "`servable init` writes what is missing"
        return Look(name="project files", state="open", said=f"no cdk.json in {root}", mend=mend)
    if writer is None:
        said = f"cdk.json does not say which version of servable wrote them; this is {here}"
    else:
        said = f"written by servable {writer}; this is {here}"
    steps = [
        "read Upgrading in Servable's CHANGELOG.md",
        *to_change(root),
        f'then in cdk.json, context: "{STAMP}": "{here}"',
    ]
    # No problem of its own: a deployment does not wait until somebody has compared files.
    return Look(name="project files", state="open", said=said, mend="; ".join(steps))


def _version(root: Path, *command: str) -> str | None:
    """Ours before any other on the machine."""
    places = [root / ".venv/bin", root / "node_modules/.bin", Path(sys.executable).parent]
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
