"""Check this computer and its project: Python, Node, the CDK CLI, and the project's files."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from infra.catalog import images
from model_packaging.refusal import build_install_command
from servable import __version__
from servable.new import project_files

State = Literal["ok", "problem", "open", "unknown"]


@dataclass(frozen=True)
class CheckResult:
    """One check's result. "open" isn't a problem itself; "unknown": no usable response of AWS."""

    name: str
    state: State
    said: str
    mend: str = ""


def build_result(name: str, fine: bool, said: str, mend: str) -> CheckResult:
    """Return a result that is "ok" if `fine`, and otherwise a problem with its remedy."""
    return CheckResult(name, "ok", said) if fine else CheckResult(name, "problem", said, mend)


# requires-python of pyproject.toml.
LEAST_PYTHON = (3, 11)
# The pinned CDK CLI requires it; Node 20 is past its end of life.
# https://docs.aws.amazon.com/cdk/v2/guide/node-versions.html
LEAST_NODE = 20
TIMEOUT_SECONDS = 30


def check_machine(root: Path) -> Iterator[CheckResult]:
    """Check Python, the image's, Node, the CDK CLI, and the project's files, all offline."""
    said = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info[:2] >= LEAST_PYTHON
    yield build_result("Python", fine, said, "install Python 3.11 or newer")
    yield _check_image_python()
    node = _find_version(root, "node", "--version")
    fine = int(node.split(".")[0]) >= LEAST_NODE if node else False
    yield build_result("Node", fine, node or "not found", f"`{build_install_command('synth')}`")
    cdk, wanted = _find_version(root, "cdk", "--version"), project_files.find_pinned_cli(root)
    pinned = wanted or "no version; `servable init` pins one"
    mend = f"`npm ci` in {root}; package.json pins {pinned}"
    fine = cdk is not None and wanted in (None, cdk)
    yield build_result("CDK CLI", fine, cdk or "not found", mend)
    yield check_project_files(root)


def check_project_files(root: Path) -> CheckResult:
    """Check whether this version wrote the project's files; if not, report what to change."""
    writer, here = project_files.read_writer_version(root), __version__
    if writer == here:
        return CheckResult("project files", "ok", f"written by servable {here}")
    if not (root / "cdk.json").is_file():
        mend = "`servable init` writes the missing files"
        return CheckResult("project files", "open", f"no cdk.json in {root}", mend)
    if writer is None:
        said = f"cdk.json doesn't record which version of servable wrote them; this is {here}"
    else:
        said = f"written by servable {writer}; this is {here}"
    steps = [
        "read the section Upgrading in Servable's CHANGELOG.md",
        *project_files.list_upgrade_steps(root),
        f'then in cdk.json, context: "{project_files.STAMP}": "{here}"',
    ]
    # Not a problem: a deployment need not wait until the files are compared.
    return CheckResult("project files", "open", said, "; ".join(steps))


def _check_image_python() -> CheckResult:
    """Report whether this Python can import code/lib, which is built for the image's Python."""
    wanted = images.find_python(images.list_versions()[-1])
    here = ".".join(map(str, sys.version_info[:2]))
    if here == wanted:
        return CheckResult("image's Python", "ok", f"{wanted}, the same as here")
    said = (
        f"{wanted}; this is {here}. The local container downloads the compiled packages of "
        "code/lib for it once, in the same versions"
    )
    mend = f"optional: to run code as in the image, install Servable with Python {wanted}"
    return CheckResult("image's Python", "ok", said, mend)


def _find_version(root: Path, *command: str) -> str | None:
    """Return a program's version, the project's own first; None if it isn't found or fails."""
    places = [root / ".venv/bin", root / "node_modules/.bin", Path(sys.executable).parent]
    own = [str(folder / command[0]) for folder in places if (folder / command[0]).exists()]
    program = own[0] if own else shutil.which(command[0])
    if program is None:
        return None
    called = [program, *command[1:]]
    try:
        ran = subprocess.run(called, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"[0-9]+\.[0-9]+\.[0-9]+", ran.stdout)
    return number[0] if number and not ran.returncode else None
