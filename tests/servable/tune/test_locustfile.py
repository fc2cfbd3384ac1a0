"""`servable load --locustfile`: a user's own classes, in our steps and with our gate and report."""

import json
import os
import sys
from pathlib import Path

import pytest

from servable.load import processes
from servable.load.processes import LoadGenerator
from servable.measured.measurement import (
    CURVE,
    LoadCurve,
    LoadError,
    LoadStep,
    LoadTarget,
    Loop,
    Pace,
    build_container_target,
)
from tests.checkouts import ROOT
from tests.servable.tune.measured import require
from tests.servable.tune.servers import Server, start_load

pytestmark = pytest.mark.long

PACE = Pace(warm_up_seconds=0.2, least_seconds=1.0, most_seconds=1.0, arrivals="constant")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "123456789012", "AWS_SECRET_ACCESS_KEY": "nothing"}
# As the page shows it, with a check of its own: 15 lines.
DUE = """\
from locust import between, task

from servable.load.users import EndpointUser


class Visitor(EndpointUser):
    wait_time = between(0.01, 0.02)

    @task
    def predict(self):
        with self.client.post(
            "/invocations", json={"instances": [[1.0]]}, catch_response=True
        ) as response:
            if response.status_code == 200 and "outputs" not in response.text:
                response.failure("no outputs")
"""
OTHER = """\
from locust import HttpUser, constant, task

class Plain(HttpUser):
    wait_time = constant(0)

    @task
    def predict(self):
        print(self.client.post("/invocations", json={"instances": [[1.0]]}))
"""
RAISING = DUE.replace("        with self", "        raise ValueError('broken')\n        with self")
NESTED = """\
from locust import FastHttpUser, TaskSet, task

class Visitor(FastHttpUser):
    @task
    class Pages(TaskSet):
        pass
"""


def run(
    folder: Path, text: str, target: LoadTarget, load: float, loop: Loop, **more: str
) -> LoadStep:
    file = folder / "locustfile.py"
    file.write_text(text)
    variables = os.environ | {"PYTHONPATH": str(ROOT)} | more
    with LoadGenerator(target, [], loop=loop, locustfile=file, variables=variables) as generator:
        return generator.run_step(load, PACE)


def test_a_locustfile_s_users_wait_and_fail_as_it_says(tmp_path: Path, server: Server) -> None:
    step = run(tmp_path, DUE, build_container_target(server.url), 2, "closed")
    # 2 users, each 5 ms and 10 to 20 ms between.
    assert 40 < step.throughput_rps.value < 2 / 0.015
    assert (server.paths, step.failure_count, step.from_due) == ({"/invocations"}, 0, True)

    with Server((200, {}, b"nothing")) as empty:
        step = run(tmp_path, DUE, build_container_target(empty.url), 2, "closed")
    assert step.errors == {"no outputs": step.request_count}


def test_an_open_loop_ignores_the_wait_time_and_counts_from_the_due_time_or_from_sending(
    tmp_path: Path, server: Server
) -> None:
    step = run(tmp_path, DUE, build_container_target(server.url), 50, "open")
    assert step.request_count / step.seconds == pytest.approx(50, rel=0.2)
    assert step.from_due

    opened = run(tmp_path, OTHER, build_container_target(server.url), 50, "open")
    assert not opened.from_due
    assert opened.request_count / opened.seconds == pytest.approx(50, rel=0.2)


IDLE = """\
import sys
from servable.load import generator, load_worker
load_worker._IDLE_SECONDS = 0.2
generator.main(*sys.argv[1:])
"""


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = DUE.replace("between(0.01, 0.02)", "between(0.4, 0.4)")
    run(tmp_path, text, build_container_target(server.url), 1, "closed")
    assert (len(server.asked) > 1, len(server.ports)) == (True, 1)
    monkeypatch.setattr(processes, "_MODULE", [sys.executable, "-c", IDLE])
    with Server(seconds=0.005) as other:
        step = run(tmp_path, text, build_container_target(other.url), 1, "closed")
    assert (len(other.ports), step.failure_count) == (len(other.asked), 0)


@pytest.mark.parametrize("text", [DUE, OTHER], ids=["EndpointUser", "HttpUser"])
def test_our_session_signs_requests_to_the_endpoint_only(
    tmp_path: Path, server: Server, text: str
) -> None:
    with Server(seconds=0.005) as elsewhere:
        target = LoadTarget(
            url=f"{server.url}/endpoints/ranker/invocations",
            headers={"X-Amzn-SageMaker-Target-Variant": "blue"},
            signing_region="eu-west-1",
        )
        task = f'self.client.post("{elsewhere.url}/other", json={{}})'
        text += f"\n    @task\n    def call(self):\n        {task}\n"
        step = run(tmp_path, text, target, 2, "closed", **CREDENTIALS)
    assert step.failure_count == 0
    assert server.paths == {"/endpoints/ranker/invocations"}
    headers = server.asked[0][0]
    assert "/eu-west-1/sagemaker/aws4_request" in headers["Authorization"]
    assert headers["X-Amzn-SageMaker-Target-Variant"] == "blue"
    assert not any("Authorization" in headers for headers, _ in elsewhere.asked)
    assert elsewhere.asked


def test_a_task_that_raises_is_a_failure(tmp_path: Path, server: Server) -> None:
    step = run(tmp_path, RAISING, build_container_target(server.url), 2, "closed")
    assert set(step.errors) == {"Visitor raised ValueError: broken"}
    assert step.latencies.count == 0


@pytest.mark.parametrize(
    ("text", "loop", "problem"),
    [
        ("import nothing_of_this_name", "closed", "can't be loaded: ModuleNotFoundError"),
        ("x = 1", "closed", "it has no user class"),
        (NESTED, "open", "Visitor has the TaskSet Pages"),
    ],
)
def test_a_locustfile_that_cannot_be_used_is_rejected(
    tmp_path: Path, text: str, loop: Loop, problem: str
) -> None:
    with pytest.raises(LoadError, match=problem):
        run(tmp_path, text, build_container_target("http://127.0.0.1:1"), 1, loop)


def test_a_process_joins_with_the_same_locustfile_only(tmp_path: Path, server: Server) -> None:
    file, other = tmp_path / "locustfile.py", tmp_path / "other.py"
    file.write_text(DUE)
    other.write_text(OTHER)
    for joined, code in ((file, 0), (other, 2)):
        test = start_load(
            server.url, "--locustfile", file, "--users", "2", "--step-seconds", "1",
            "--warm-up-seconds", "0.2", "--listen", "127.0.0.1:0", "--output", tmp_path,
        )  # fmt: skip
        address = require(test.stderr).readline().split()[-1]
        worker = start_load("--join", address, "--locustfile", joined)
        _, words = test.communicate(timeout=100)
        worker.communicate(timeout=30)
        assert ("same file" in words) == bool(code)
        assert test.returncode == 2 if code else test.returncode in (0, 1)


def test_the_report_of_any_other_class_says_that_latency_starts_at_sending(
    tmp_path: Path, server: Server
) -> None:
    file = tmp_path / "locustfile.py"
    file.write_text(OTHER)
    ran = start_load(
        server.url, "--locustfile", file, "--rates", "20", "--step-seconds", "1", "--json",
        "--warm-up-seconds", "0.2", "--output", tmp_path,
    )  # fmt: skip
    found, words = ran.communicate(timeout=100)
    assert json.loads(found)["steps"][0]["from_due"] is False, words
    assert LoadCurve.read(tmp_path / CURVE).asked.bodies == ("locustfile locustfile.py",)
    assert "latency starts at sending" in (tmp_path / "report.html").read_text()
