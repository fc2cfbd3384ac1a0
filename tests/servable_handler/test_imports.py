"""What the handler may import, and what importing it may do: it runs in the image, before the fork."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from infra.catalog.images import find_modules
from model_packaging.inputs import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
FILES = [
    file
    for name in PACKAGES
    for file in sorted((ROOT / "packages/servable-runtime" / name).rglob("*.py"))
]
IN_THE_IMAGE = {"numpy", "google", "grpc", "falcon", "gevent", "requests"}
WHERE_VENDORED = {"orjson"}


def imported(file: Path) -> set[str]:
    """Top-level names of everything that the file imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add((node.module or "").partition(".")[0])
    return found


def test_only_what_the_image_holds_is_imported() -> None:
    allowed = set(sys.stdlib_module_names) | IN_THE_IMAGE | WHERE_VENDORED | {*PACKAGES}
    assert {file.name: imported(file) - allowed for file in FILES if imported(file) - allowed} == {}
    assert len({file.parts[-2] for file in FILES}) > len(PACKAGES)

    image = find_modules("2.20")
    assert image is not None
    assert image.modules >= IN_THE_IMAGE


def run(code: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.mark.long
def test_importing_opens_no_socket_thread_or_channel() -> None:
    code = (
        "import sys\nopened = []\n"
        "sys.addaudithook(lambda event, _: opened.append(event) if event.startswith('socket.') else None)\n"
        "import servable_handler.inference\nprint(opened)"
    )
    assert run(code) == "[]"

    code = "import os, servable_handler.inference\nprint(len(os.listdir('/proc/self/task')))"
    before = "import os, numpy\nprint(len(os.listdir('/proc/self/task')))"  # OpenBLAS has its own
    assert run(code) == run(before)
    code = (
        "import grpc\n"
        "def opened(*a, **k): raise SystemExit('a channel')\n"
        "grpc.insecure_channel = opened\nimport servable_handler.inference\nprint('fine')"
    )
    assert run(code) == "fine"
    code = "import sys, servable_tensors.tensors\nprint([m for m in ('grpc', 'gevent') if m in sys.modules])"
    assert run(code) == "[]"
