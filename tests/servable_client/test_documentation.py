"""docs/client.md does what it says, also at the end of a process that closed no endpoint."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import servable_client
from servable_client import FakeEndpoint, errors, forks
from tests.checkouts import PYTHONS
from tests.servable_client.runtime_server import Server, answering

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")


class Documented(FakeEndpoint):
    """In the place of a deployed endpoint; its name and where it puts requests do not matter."""

    def __init__(self, name: str, **told: Any) -> None:
        super().__init__(lambda feat_ids, feat_vals: {"prob": feat_vals.mean(axis=1)}, **told)


def test_every_block_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servable_client, "Endpoint", Documented)
    monkeypatch.setattr("servable_client.endpoint.Endpoint", Documented)
    names: dict[str, Any] = {"asyncio": asyncio}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    assert len(asyncio.run(names["both"]())) == 2


ERRORS = PAGE.partition("## What can go wrong")[2].partition("## asyncio")[0]
NAMES = sorted({*re.findall(r"`([A-Z][A-Za-z]+)`", ERRORS)})


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    for name in NAMES:
        assert hasattr(servable_client, name)
    tree = set(re.findall(r"── (\w+)", errors.__doc__ or ""))
    assert tree - {"BusyError", "UnansweredError"} <= {*re.findall(r"\w+", PAGE)}
    classes = {name: var for name, var in vars(errors).items() if isinstance(var, type)}
    kinds = {name for name, kind in classes.items() if issubclass(kind, Exception)}
    assert tree | {"PredictionError"} == kinds


OWNERS = """\
import importlib.util, sys
spec = importlib.util.spec_from_file_location("forks", sys.argv[1])
forks = importlib.util.module_from_spec(spec)
sys.modules["forks"] = forks
spec.loader.exec_module(forks)
class Owner:
    def _initialize_process_state(self):
        self.itself = self
owners = [Owner(), Owner()]
for owner in owners:
    forks.initialize_in_each_process(owner)
"""


def find_python(name: str) -> str | None:
    """Return a Python of this name that starts; shims on the path may not."""
    kept = [Path.home() / ".pyenv/versions", Path.home() / ".local/share/uv/python"]
    installed = [path for folder in kept for path in folder.glob(f"*/bin/{name}")]
    for program in map(str, [*(Path(folder, name) for folder in os.get_exec_path()), *installed]):
        if os.access(program, os.X_OK) and not subprocess.run([program, "--version"]).returncode:
            return program
    return None


def last_words(python: str | Path, program: str, *arguments: str, **variables: str) -> str:
    """What a program prints on stderr until its process has ended."""
    ran = subprocess.run([
        python, "-c", program, *arguments,
    ], capture_output=True, text=True, env=os.environ | variables, timeout=60)  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stderr


@pytest.mark.long
def test_the_pages_first_example_ends_without_a_word(server: Server) -> None:
    example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0]
    server.answer = lambda received: answering({"prob": np.zeros(500)})
    address = {"AWS_ENDPOINT_URL_SAGEMAKER_RUNTIME": server.url, "PYTHONPATH": str(ROOT)}
    assert last_words(sys.executable, example, **address) == ""


@pytest.mark.long
@pytest.mark.parametrize("version", PYTHONS)
def test_owners_in_a_reference_cycle_end_with_their_process_without_a_word(version: str) -> None:
    running = version == ".".join(map(str, sys.version_info[:2]))
    if not (python := Path(sys.executable) if running else find_python(f"python{version}")):
        pytest.skip(f"Python {version} is not installed here")
    assert last_words(python, OWNERS, forks.__file__) == ""
