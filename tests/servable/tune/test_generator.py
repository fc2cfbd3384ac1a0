"""The generator against servers of one's own: what is sent, what is counted, what is never hidden.

Nothing joins a load test by HTTP, as a web page would have to.
"""

import os
import pickle
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
import zmq

from servable.load import processes
from servable.load.processes import LoadGenerator
from servable.measured.measurement import (
    Body,
    LoadError,
    LoadStep,
    LoadTarget,
    Loop,
    Pace,
    build_container_target,
)
from servable.measured.precision import find_bin
from tests.checkouts import ROOT
from tests.servable.tune.measured import require
from tests.servable.tune.servers import OK, Answer, Server

pytestmark = pytest.mark.long

BODY = Body(content=b'{"instances": [[1.0]]}', content_type="application/json")
BRIEF = Pace(warm_up_seconds=0.15, least_seconds=0.5, most_seconds=0.5, arrivals="constant")
REGION = "eu-west-1"
NOWHERE = build_container_target("http://127.0.0.1:1")

Measured = Callable[..., LoadStep]


@pytest.fixture(scope="module")
def generator() -> Iterator[LoadGenerator]:
    """Aimed by each test: its process takes longer to start than a step."""
    credentials = {"AWS_ACCESS_KEY_ID": "123456789012", "AWS_SECRET_ACCESS_KEY": "nothing"}
    variables = os.environ | credentials
    with LoadGenerator(NOWHERE, [BODY], loop="closed", variables=variables) as one:
        yield one


@pytest.fixture
def measured(generator: LoadGenerator) -> Measured:
    def step(
        target: LoadTarget, load: float, pace: Pace = BRIEF, *, loop: Loop = "closed"
    ) -> LoadStep:
        generator.set_target(target, [BODY], loop=loop)
        return generator.run_step(load, pace)

    return step


def test_bodies_are_sent_as_often_as_they_weigh_and_counted_without_the_warm_up(
    generator: LoadGenerator,
) -> None:
    seldom = Body(content=b"1,2", content_type="text/csv", custom_attributes="tfs-model-name=a")
    often = Body(content=BODY.content, content_type=BODY.content_type, weight=3.0)
    with Server() as server:
        generator.set_target(build_container_target(server.url), [seldom, often], loop="closed")
        steps = [generator.run_step(users, BRIEF) for users in (2, 4)]
    kinds = {(headers["Content-Type"], body) for headers, body in server.asked}
    assert kinds == {("text/csv", b"1,2"), ("application/json", BODY.content)}
    sent = {headers.get("X-Amzn-SageMaker-Custom-Attributes") for headers, _ in server.asked}
    assert sent == {"tfs-model-name=a", None}
    asked = [headers["Content-Type"] for headers, _ in server.asked]
    assert asked.count("text/csv") / len(asked) == pytest.approx(0.25, abs=0.1)

    assert [step.users for step in steps] == [2, 4]
    assert sum(step.request_count for step in steps) < len(server.asked)
    assert 0 < steps[0].generator_cpu_share <= 1.1

    step = steps[0]
    answered = step.throughput_rps.value * step.seconds
    assert answered == pytest.approx(step.latencies.count, rel=0.3)


def test_an_open_loop_sends_at_its_rate_and_connections_are_kept(measured: Measured) -> None:
    with Server() as server:
        measured(build_container_target(server.url), 2)
    assert len(server.ports) == 2

    with Server(seconds=0.5) as server:
        step = measured(build_container_target(server.url), 50, loop="open")
    assert step.request_count / step.seconds == pytest.approx(50, rel=0.2)


def test_an_open_loop_sends_nothing_early_and_reports_no_less_than_the_server_took(
    measured: Measured,
) -> None:
    with Server(seconds=0.003) as server:
        step = measured(build_container_target(server.url), 100, loop="open")
    assert step.failure_count == 0
    assert min(step.latencies.bins) >= find_bin(3.0)
    assert step.send_lags.count == step.request_count


def test_errors_and_timeouts_are_counted_beside_latencies(measured: Measured) -> None:
    with Server((503, {}, b"no")) as server:
        step = measured(build_container_target(server.url), 2)
    assert (step.errors, step.latencies.count) == ({"503": step.request_count}, 0)

    said = b'{"OriginalStatusCode": 500, "Message": "no"}'
    with Server((424, {"x-amzn-ErrorType": "ModelError:x"}, said)) as server:
        step = measured(build_container_target(server.url), 1)
    assert step.first_answers == {"424 ModelError, 500 from the container": said.decode()}
    with Server() as server:
        url = server.url
    assert set(measured(build_container_target(url), 1).errors) == {"connection refused"}

    with Server(seconds=1.0) as server:
        target = LoadTarget(url=f"{server.url}/invocations", timeout_seconds=0.3)
        step = measured(target, 1)
    assert (step.latencies.count, step.timeouts > 0) == (0, True)


def test_an_address_that_drops_all_packets_is_counted_as_timeouts(measured: Measured) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as queue:
        address, port = queue.getsockname()
        with socket.create_connection((address, port)):  # Linux drops the next
            # Longer and shorter than the step.
            for loop, seconds in (("closed", 2.0), ("open", 0.2)):
                target = LoadTarget(url=f"http://{address}:{port}/", timeout_seconds=seconds)
                step = measured(target, 4, loop=loop)
                assert (step.errors, step.latencies.count, step.timeouts > 0) == ({}, 0, True)


def test_requests_are_signed_and_without_credentials_it_says_so(measured: Measured) -> None:
    with Server() as server:
        measured(LoadTarget(url=f"{server.url}/x", signing_region=REGION), 1)
        headers = server.asked[0][0]
    assert f"/{REGION}/sagemaker/aws4_request" in headers["Authorization"]

    none = {
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    target = LoadTarget(url="http://127.0.0.1:1", signing_region=REGION)
    with pytest.raises(LoadError, match="credentials"):
        LoadGenerator(target, [BODY], loop="closed", variables=kept | none)


# At 100 a second: in the middle of the step, and at its end, when nobody would wait for the answers.
@pytest.mark.parametrize("request_number", [80, 180])
def test_a_server_that_stalls_for_2_seconds_is_never_reported_as_fast(
    measured: Measured, request_number: int
) -> None:
    pace = Pace(warm_up_seconds=0.3, least_seconds=2.0, most_seconds=2.0, arrivals="constant")
    ends_at = 0.0

    def stall(number: int, headers: dict[str, str], body: bytes) -> Answer:
        nonlocal ends_at
        if number == request_number:
            ends_at = time.monotonic() + 2.0
        time.sleep(max(0.0, ends_at - time.monotonic()))
        return OK

    with Server(stall) as server:
        step = measured(build_container_target(server.url), 100, pace, loop="open")
    assert step.latencies.p99_ms > 1500


def test_two_processes_share_the_users_and_the_rate() -> None:
    with LoadGenerator(NOWHERE, [BODY], loop="closed", processes=2) as two_processes:
        with Server() as server:
            two_processes.set_target(build_container_target(server.url), [BODY], loop="closed")
            two_processes.run_step(4, BRIEF)
        assert len(server.ports) == 4

        with Server() as server:
            two_processes.set_target(build_container_target(server.url), [BODY], loop="open")
            step = two_processes.run_step(60, BRIEF)
        assert step.request_count / step.seconds == pytest.approx(60, rel=0.25)


BLOCKED = """
import locust, gevent.socket, sys, time
from servable.load import generator
send = gevent.socket.socket.sendall
def send_and_block(*arguments):
    send(*arguments)
    until = time.perf_counter() + 0.1
    while time.perf_counter() < until: pass
gevent.socket.socket.sendall = send_and_block
generator.main(*sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels do not say when")
def test_a_response_counts_from_when_it_arrived_even_if_it_is_read_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(processes, "_MODULE", [sys.executable, "-c", BLOCKED])
    with Server(seconds=0.02) as server, LoadGenerator(NOWHERE, [BODY], loop="open") as generator:
        generator.set_target(build_container_target(server.url), [BODY], loop="open")
        step = generator.run_step(5, BRIEF)
    assert (step.failure_count, 20 <= step.latencies.p50_ms < 90) == (0, True)


CHANGED = """\
import sys
from servable.load import generator
generator.{name} = {value}
generator.main(*sys.argv[1:])
"""


def change_generator(monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    code = CHANGED.format(name=name, value=value)
    monkeypatch.setattr(processes, "_MODULE", [sys.executable, "-c", code])


def test_each_request_is_counted_once_however_few_times_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change_generator(monkeypatch, "_MOST_KEPT", 20)
    pace = Pace(warm_up_seconds=0.0, least_seconds=1.5, most_seconds=1.5, arrivals="constant")
    with Server() as server, LoadGenerator(NOWHERE, [BODY], loop="open") as generator:
        generator.set_target(build_container_target(server.url), [BODY], loop="open")
        step = generator.run_step(100, pace)
    assert len(server.asked) > 100
    counts = (step.latencies.count, step.send_lags.count, step.request_count)
    assert counts == (len(server.asked),) * 3
    assert step.latencies.count > sum(each.count for each in step.tails) > 0


def test_a_process_that_ends_during_a_step_ends_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    change_generator(monkeypatch, "_LOST_SECONDS", 2.0)
    with LoadGenerator(NOWHERE, [BODY], loop="closed", processes=2) as generator:

        def kill(found: dict[str, object]) -> None:
            generator._workers[0].kill()

        with pytest.raises(LoadError, match="has not reported"):
            generator.run_step(2, Pace(warm_up_seconds=0.0), kill)


# Locust's message ("client_ready", "x", "page"), as msgpack.
JOIN = b"\x93\xacclient_ready\xa1x\xa4page"


def test_a_load_worker_joins_and_a_post_in_zeromqs_old_form_does_not() -> None:
    command = [sys.executable, "-m", "servable.load.generator", "master", "127.0.0.1", "0", "1"]
    pipe = subprocess.PIPE
    with (
        subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT) as process,
        require(process.stdin),
    ):
        port = pickle.load(require(process.stdout))
        start = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nOrigin: http://evil.example\r\nX: "
        # "P" is 80: a first frame of so many bytes, the sender's name. Then a frame with the message.
        name = start.encode().ljust(81, b"x")
        received = b""
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(name + bytes([len(JOIN) + 1, 0]) + JOIN)
            with suppress(TimeoutError, ConnectionResetError):
                while piece := connection.recv(4096):
                    received += piece
        assert b"ack" not in received
        with zmq.Context() as context, context.socket(zmq.DEALER) as worker:
            worker.linger = 0
            worker.setsockopt(zmq.IDENTITY, b"worker")
            worker.connect(f"tcp://127.0.0.1:{port}")
            worker.send(JOIN)
            assert worker.poll(30_000)
            assert b"ack" in worker.recv()
