"""`servable load` as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from servable.load.bodies import load_bodies
from servable.load.command import load
from servable.load.load_generator import LoadGenerator
from servable.load.load_target import build_container_target
from servable.load.measurement import CURVE, LoadCurve
from servable.load.run import print_result
from tests.checkouts import ROOT
from tests.servable.tune.measured import curve, step
from tests.servable.tune.servers import OK, Answer, Server

pytestmark = pytest.mark.long

Interrupted = tuple[int, LoadCurve, list[int]]
STEP = ["--warm-up-seconds", "0.2", "--step-seconds", "0.8"]


def ready(number: int, headers: dict[str, str], body: bytes) -> Answer:
    time.sleep(0.005)
    return OK


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(ready) as running:
        yield running


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bodies") / "a.json"
    file.write_text('{"instances": [[1.0]]}')
    return file


def started(*arguments: str | Path, **variables: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "servable", "load", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)} | variables,
    )


@dataclass(frozen=True)
class Ran:
    code: int
    said: dict[str, Any]
    curve: LoadCurve


@pytest.fixture(scope="module")
def ran(server: Server, body: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("run")
    one = started(
        server.url,
        "--users",
        "1,3",
        "--body",
        body,
        *STEP,
        "--json",
        "--output",
        folder,
        "--p99-ms",
        "500",
    )
    said, _ = one.communicate(timeout=100)
    return Ran(one.returncode, json.loads(said), LoadCurve.read(folder / CURVE))


def test_a_run_is_told_to_programs_and_written_down(ran: Ran, server: Server) -> None:
    assert [step.users for step in ran.curve.steps] == [1, 3]
    told = [step["throughput_rps"]["value"] for step in ran.said["steps"]]
    assert told == [step.throughput_rps.value for step in ran.curve.steps]
    assert ran.code == int(any(step.rejection for step in ran.curve.steps))
    assert server.paths == {"/invocations"}
    assert ran.curve.asked.bodies == ("1 of a.json (application/json)",)
    assert ran.said["relative"] is True


@pytest.fixture(scope="module")
def interrupted(
    server: Server, body: Path, tmp_path_factory: pytest.TempPathFactory
) -> Interrupted:
    """(exit code, curve, processes left) of a run with Ctrl-C in its second step."""
    folder = tmp_path_factory.mktemp("interrupted")
    users = ",".join(["2"] * 50)
    one = started(server.url, "--users", users, "--body", body, *STEP, "--output", folder)
    deadline = time.monotonic() + 60
    while not (folder / CURVE).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    below = psutil.Process(one.pid).children(recursive=True)
    one.send_signal(signal.SIGINT)
    one.communicate(timeout=60)
    _, left = psutil.wait_procs(below, timeout=10)
    return one.returncode, LoadCurve.read(folder / CURVE), [process.pid for process in left]


def test_ctrl_c_keeps_what_was_measured(interrupted: Interrupted) -> None:
    assert interrupted[0] == 130
    assert len(interrupted[1].steps) >= 1
    assert interrupted[2] == []


WRONG = {
    "nothing": [],
    "both loops": ["prod", "--users", "1", "--rates", "2"],
    "no number": ["prod", "--users", "many"],
    "half a user": ["prod", "--users", "1.5"],
    "no budget": ["prod", "--target", "sagemaker"],
    "a budget for nothing": ["prod", "--dollars", "1"],
    "AWS of a local run": ["prod", "--local"],
    "an address's variant": ["http://127.0.0.1:1", "--variant", "a"],
    "nobody sends": ["prod", "--processes", "0"],
    "two kinds of requests": ["prod", "--locustfile", __file__, "--body", "a.json"],
    "no address to join": ["--join", "here"],
    "two targets": ["prod", "--join", "127.0.0.1:1"],
}


def test_wrong_use_ends_with_2() -> None:
    for arguments in WRONG.values():
        assert CliRunner().invoke(load, arguments, standalone_mode=True).exit_code == 2
    said = CliRunner().invoke(load, ["http://127.0.0.1:1"], standalone_mode=False)
    assert (said.return_value, "--body" in said.output) == (2, True)


def test_the_command_imports_neither_gevent_nor_what_takes_time() -> None:
    code = "import servable.load.run, sys; sys.exit('gevent' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert ran.returncode == 0

    code = "import servable.load.command, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"boto3", "botocore", "matplotlib", "numpy", "pydantic", "rich", "infra.preflight.check"}
    assert "servable.load.options" in ran.stdout.split()
    assert not slow & set(ran.stdout.split())


def test_an_environment_on_this_machine_is_loaded_with_its_own_warm_up(tmp_path: Path) -> None:
    one = started("local", "--users", "1,2", *STEP, "--json", "--output", tmp_path)
    said, words = one.communicate(timeout=110)
    steps = json.loads(said)["steps"] if said else []
    assert [step["failed"] for step in steps] == [0, 0], words


def test_processes_that_join_share_the_users(body: Path, tmp_path: Path) -> None:
    load_test = ["--users", "4", "--body", str(body), *STEP, "--output", str(tmp_path)]
    with Server(ready) as server:
        test = started(server.url, *load_test, "--processes", "2", "--listen", "127.0.0.1:0")
        assert test.stderr is not None
        # "waiting: servable load --join 127.0.0.1:5557"
        address = test.stderr.readline().split()[-1]
        workers = [started("--join", address) for _ in range(2)]
        test.communicate(timeout=100)
        for worker in workers:
            worker.communicate(timeout=30)
    users = LoadCurve.read(tmp_path / CURVE).steps[0].users
    assert ([one.returncode for one in workers], len(server.ports), users) == ([0, 0], 4, 4)


def test_what_failed_is_shown_with_its_first_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = step(1, 0.0, errors={"400": 7}, first_answers={"400": "x: got\n3 rows"})
    print_result(curve(failed), None, tmp_path, as_json=False, verdict="holds")
    assert "failed: 7 x 400\n  for example: x: got 3 rows\n" in capsys.readouterr().out


def test_no_other_computer_can_join_unless_an_address_is_named(body: Path) -> None:
    requests = load_bodies((str(body),), content_type=None, loaded=None)[0]
    nowhere = build_container_target("http://127.0.0.1:1")
    with LoadGenerator(nowhere, requests, loop="closed", processes=2) as generator:
        connections = psutil.Process(generator._head.pid).net_connections("tcp")
    assert {one.laddr.ip for one in connections if one.status == "LISTEN"} == {"127.0.0.1"}
