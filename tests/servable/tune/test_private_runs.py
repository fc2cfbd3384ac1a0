"""Runs of `servable load` and `servable tune` are for their owner alone, whatever the umask is."""

import json
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servable.load.temporary import Ledger
from servable.tune.run import RUNS, TRIALS_FILE, lock_folder
from servable.tune.search.search import Search
from servable.tune.search.space import Budget, Measurement, Space
from tests.checkouts import ROOT
from tests.servable.tune.servers import OK, Answer, Server

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def umask_0() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(project: Path) -> list[str]:
    made = project / ".servable"
    found = [made, *made.rglob("*")]
    return [str(one) for one in found if stat.S_IMODE(one.stat().st_mode) & 0o077]


def test_what_a_search_keeps(tmp_path: Path) -> None:
    folder = tmp_path / RUNS / "prod-blue-0123"
    (tmp_path / ".servable").mkdir()  # open to all, from an earlier version
    with lock_folder(folder):
        search = Search(Space({"tfs_processes": (1, 2)}), [], file=folder / TRIALS_FILE)
        search.run(lambda point: Measurement(value=1.0), Budget(trials=1))
        Ledger(folder / "ledger.json").record_start("copy", 1.0)
    assert {path.name for path in folder.iterdir()} == {TRIALS_FILE, "ledger.json"}
    assert open_to_others(tmp_path) == []


def test_what_a_load_test_keeps(tmp_path: Path) -> None:
    def answer(number: int, headers: dict[str, str], body: bytes) -> Answer:
        time.sleep(0.005)
        return OK

    (tmp_path / "body.json").write_text('{"instances": [[1.0]]}')
    with Server(answer) as server:
        command = [
            sys.executable,
            "-m",
            "servable",
            "load",
            server.url,
            "--body",
            "body.json",
            "--json",
        ]
        command += ["--users", "1", "--warm-up-seconds", "0.1", "--step-seconds", "0.5"]
        ran = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            check=False,
            timeout=100,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
    assert json.loads(ran.stdout)["steps"], ran.stderr
    (run,) = (tmp_path / ".servable" / "load").iterdir()
    assert list(run.iterdir())
    assert open_to_others(tmp_path) == []
