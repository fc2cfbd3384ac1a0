"""This computer: Python, the image's Python, Node and the CDK CLI."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from infra.catalog import images
from servable.doctor.look import Look, judged

# requires-python of pyproject.toml.
LEAST_PYTHON = (3, 11)
# Of the CDK CLI that package.json pins; Node 20 is past its end of life.
# https://docs.aws.amazon.com/cdk/v2/guide/node-versions.html
LEAST_NODE = 20
TIMEOUT_SECONDS = 30


def machine(root: Path) -> Iterator[Look]:
    """Python, the image's Python, Node and the CDK CLI; asks nobody."""
    said = ".".join(map(str, sys.version_info[:3]))
    fine = sys.version_info[:2] >= LEAST_PYTHON
    yield judged("Python", fine, said, "install Python 3.11 or newer, then `make install`")
    yield _image_python()
    node = _version(root, "node", "--version")
    number = int(node.split(".")[0]) if node else 0
    yield judged("Node", number >= LEAST_NODE, node or "not found", "`make install` brings its own")
    cdk, wanted = _version(root, "cdk", "--version"), _pinned(root)
    mend = f"`make install`, or `npm ci`; package.json pins {wanted}"
    fine = cdk is not None and wanted in (None, cdk)
    yield judged("CDK CLI", fine, cdk or "not found", mend)


def _image_python() -> Look:
    """Whether code/lib, which is for the image's Python, is imported as it is."""
    wanted = images.python(images.versions()[-1])
    here = ".".join(map(str, sys.version_info[:2]))
    if here == wanted:
        return Look(name="image's Python", state="ok", said=f"{wanted}, and it runs here")
    said = (
        f"{wanted}; here {here} runs, for which the local container fetches the same versions of "
        "compiled packages in code/lib once"
    )
    found = _python(f"python{wanted}")
    mend = (
        f"with Servable installed into a virtual environment of {found} code runs as in the image"
        if found
        else f"no Python {wanted} was found on this computer; none is needed"
    )
    return Look(name="image's Python", state="ok", said=said, mend=mend)


def _python(name: str) -> str | None:
    """One that starts, on the path, or of pyenv or uv (whose names on the path may lead nowhere)."""
    on_path = [Path(folder, name) for folder in os.get_exec_path()]
    kept = [Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"]
    for program in [*on_path, *(one for folder in kept for one in folder.glob(f"*/bin/{name}"))]:
        if os.access(program, os.X_OK) and _ran(str(program), "--version"):
            return str(program)
    return None


def _version(root: Path, *command: str) -> str | None:
    """Ours before any other on the machine."""
    places = [root / ".venv" / "bin", root / "node_modules" / ".bin"]
    own = [str(one / command[0]) for one in places if (one / command[0]).exists()]
    program = own[0] if own else shutil.which(command[0])
    if program is None:
        return None
    found = re.search(r"[0-9]+\.[0-9]+\.[0-9]+", _ran(program, *command[1:]))
    return found[0] if found else None


def _ran(*command: str) -> str:
    """What it writes; nothing where it does not start, or fails."""
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "" if ran.returncode else ran.stdout


def _pinned(root: Path) -> str | None:
    try:
        told = json.loads((root / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    pins = {**told.get("dependencies", {}), **told.get("devDependencies", {})}
    pin = pins.get("aws-cdk")
    return str(pin) if pin else None
