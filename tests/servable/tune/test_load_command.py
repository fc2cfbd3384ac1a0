"""`servable load` as a user runs it."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest
from click.testing import CliRunner

from servable.load.bodies import load_bodies
from servable.load.command import load
from servable.load.processes import LoadGenerator
from servable.load.run import report_result
from servable.measured.measurement import CURVE, LoadCurve, build_container_target
from tests.checkouts import ROOT
from tests.servable.tune.measured import curve, require, step
from tests.servable.tune.servers import Server, list_open_to_others, start_load

pytestmark = pytest.mark.long

STEP = ["--warm-up-seconds", "0.2", "--step-seconds", "0.8"]


@pytest.fixture
def body(tmp_path: Path) -> Path:
    file = tmp_path / "a.json"
    file.write_text('{"instances": [[1.0]]}')
    return file


def test_a_run_is_told_to_programs_and_written_down_for_its_owner_alone(
    server: Server, body: Path, tmp_path: Path
) -> None:
    options = ["--users", "1,3", *STEP, "--json", "--p99-ms", "500", "--body"]
    one = start_load(server.url, *options, body, folder=tmp_path, umask=0)
    told, words = one.communicate(timeout=100)
    said = json.loads(told or words)
    (run,) = (tmp_path / ".servable" / "load").iterdir()
    curve = LoadCurve.read(run / CURVE)
    assert [step.users for step in curve.steps] == [1, 3]
    throughputs = [step["throughput_rps"]["value"] for step in said["steps"]]
    assert throughputs == [step.throughput_rps.value for step in curve.steps]
    assert one.returncode == int(any(step.rejection for step in curve.steps))
    assert server.paths == {"/invocations"}
    assert curve.asked.bodies == ("1 of a.json (application/json)",)
    assert said["relative"] is True
    assert list_open_to_others(tmp_path / ".servable") == []


def test_ctrl_c_in_the_second_step_keeps_what_was_measured(
    server: Server, body: Path, tmp_path: Path
) -> None:
    steps = ["--users", ",".join(["2"] * 50), *STEP]
    one = start_load(server.url, *steps, "--body", body, "--output", tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / CURVE).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    below = psutil.Process(one.pid).children(recursive=True)
    one.send_signal(signal.SIGINT)
    one.communicate(timeout=60)
    _, left = psutil.wait_procs(below, timeout=10)
    assert (one.returncode, left) == (130, [])
    assert len(LoadCurve.read(tmp_path / CURVE).steps) >= 1


WRONG = {
    "pass an environment or a URL": [],
    "use either --users (closed loop)": ["prod", "--users", "1", "--rates", "2"],
    "write numbers above 0": ["prod", "--users", "many"],
    "--users must be whole numbers": ["prod", "--users", "1.5"],
    "sagemaker costs money; pass it together": ["prod", "--target", "sagemaker"],
    "pass it together with --dollars": ["prod", "--dollars", "1"],
    "--local applies only to": ["prod", "--local"],
    "apply to an environment, not to a URL": ["http://127.0.0.1:1", "--variant", "a"],
    "--gate applies to an environment": ["http://127.0.0.1:1", "--gate"],
    "use --rates with --gate": ["prod", "--gate", "--open"],
    "Invalid value for '--processes'": ["prod", "--processes", "0"],
    "omit --body": ["prod", "--locustfile", __file__, "--body", "a.json"],
    "write HOST:PORT": ["--join", "here"],
    "--join works only with --locustfile": ["prod", "--join", "127.0.0.1:1"],
}


def test_wrong_use_ends_with_2_and_what_failed_is_shown_with_its_first_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for problem, arguments in WRONG.items():
        ran = CliRunner().invoke(load, arguments, standalone_mode=True)
        assert (ran.exit_code, problem in ran.output) == (2, True), ran.output
    said = CliRunner().invoke(load, ["http://127.0.0.1:1"], standalone_mode=False)
    assert (said.return_value, "--body" in said.output) == (2, True)

    failed = step(1, 0.0, errors={"400": 7}, first_answers={"400": "x: got\n3 rows"})
    report_result(curve(failed), None, tmp_path, Mock(gate=False, as_json=False))
    assert "failed: 7 x 400\n  for example: x: got 3 rows\n" in capsys.readouterr().out


def test_the_command_imports_neither_gevent_nor_what_takes_time() -> None:
    code = "import servable.load.run, sys; sys.exit('gevent' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)
    assert ran.returncode == 0

    code = "import servable.load.command, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    slow = {"boto3", "botocore", "matplotlib", "numpy", "pydantic", "rich", "infra.preflight.check"}
    assert "servable.load.options" in ran.stdout.split()
    assert not slow & set(ran.stdout.split())

    commands = "servable.load.command, servable.replay.command, servable.tune.command"
    code = f"import sys; sys.modules['servable_local'] = None; import {commands}"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_an_environment_on_this_machine_is_loaded_with_its_own_warm_up(tmp_path: Path) -> None:
    one = start_load("local", "--users", "1,2", *STEP, "--json", "--output", tmp_path)
    said, words = one.communicate(timeout=110)
    steps = json.loads(said)["steps"] if said else []
    assert [step["failed"] for step in steps] == [0, 0], words


def test_processes_that_join_share_the_users(server: Server, body: Path, tmp_path: Path) -> None:
    options = ["--users", "4", *STEP, "--processes", "2", "--listen", "127.0.0.1:0"]
    test = start_load(server.url, *options, "--body", body, "--output", tmp_path)
    # "waiting: servable load --join 127.0.0.1:5557"
    address = require(test.stderr).readline().split()[-1]
    workers = [start_load("--join", address) for _ in range(2)]
    for one in (test, *workers):
        one.communicate(timeout=100)
    users = LoadCurve.read(tmp_path / CURVE).steps[0].users
    assert ([one.returncode for one in workers], len(server.ports), users) == ([0, 0], 4, 4)


def test_no_other_computer_can_join_unless_an_address_is_named(body: Path) -> None:
    requests = load_bodies((str(body),), content_type=None, loaded=None)[0]
    nowhere = build_container_target("http://127.0.0.1:1")
    with LoadGenerator(nowhere, requests, loop="closed", processes=2) as generator:
        connections = psutil.Process(generator._process.pid).net_connections("tcp")
    assert {one.laddr.ip for one in connections if one.status == "LISTEN"} == {"127.0.0.1"}
