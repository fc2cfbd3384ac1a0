"""Containers of their own: several batching model servers, other code than a handler, and warm-up records."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from servable_local.container.launch import LaunchError, launch
from tests.conformance import archives
from tests.conformance.asking import Endpoint, eventually
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = [1.0, 2.0]
ONE = {"signature_name": "batch", "instances": [ROW]}


def test_requests_are_computed_together_up_to_the_size_of_a_batch(batching: Endpoint) -> None:
    with ThreadPoolExecutor(6) as callers:
        answers = [
            one.json() for one in callers.map(lambda _: batching.do("pass_on", ONE), range(6))
        ]
    # What the model says of the rows it was given: some had company.
    assert max(answer["predictions"][0] for answer in answers if "predictions" in answer) > 1
    assert batching.do("pass_on", ONE).json() == {"predictions": [1]}

    answer = batching.do("pass_on", {"instances": [ROW] * 5})
    sentence = "Task size 5 is larger than maximum input batch size 4"
    assert answer.json() == {"error": sentence}
    assert len(batching.do("pass_on", {"instances": [ROW] * 4}).json()["predictions"]) == 4


def test_a_full_queue_is_an_error_to_its_caller(batching: Endpoint) -> None:
    def ask(number: int) -> str:
        return batching.do("pass_on", {"instances": [ROW] * 4}).text

    with ThreadPoolExecutor(16) as callers:
        for _ in range(20):
            if any("queue" in answer for answer in callers.map(ask, range(16))):
                return
    raise AssertionError("320 requests of a whole batch each, and the queue was never full")


def test_the_code_knows_ports_and_timeout(batching: Endpoint) -> None:
    names = ["TFS_GRPC_PORTS", "TFS_REST_PORTS", "SAGEMAKER_SAFE_PORT_RANGE"]
    grpc, rest, safe = (batching.do("the_environment", names).json()[name] for name in names)
    low, high = map(int, safe.split("-"))
    assert (grpc, rest) == (f"{low},{low + 2}", f"{low + 1},{low + 3}")
    assert low + 4 <= high
    shown = [batching.do("the_context").json() for _ in range(40)]
    assert len({(one["grpc_port"], one["rest_uri"]) for one in shown}) == 4
    assert {one["timeout"] for one in shown} == {50.0}


def test_workers_and_threads_answer_side_by_side(batching: Endpoint) -> None:
    with ThreadPoolExecutor(8) as callers:
        shown = list(callers.map(lambda _: batching.do("the_process").json(), range(80)))
    assert len({one["pid"] for one in shown}) == 2
    # Eight calls that wait 0.5 s each, in 2 workers of 8 threads: one after the other were 2 s.
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: batching.do("sleep", b"0.5").text, range(8)))
    assert answers == ["slept"] * 8


def test_input_and_output_handlers_stand_around_the_model_that_is_found(pair: Endpoint) -> None:
    # export/numbers in the archive: named after the folder of its versions.
    answer = pair.post([ROW])
    assert (answer.status_code, answer.json()) == (200, [[3.0, 6.0]])


def test_a_worker_that_is_busy_too_long_is_killed(pair: Double) -> None:
    # The model server hangs, the sync worker waits for it, Gunicorn's patience is 3 s.
    before = pair.process.parts.workers
    pair.process.faults.freeze("model server")
    status = pair.post([ROW]).status_code
    pair.process.faults.thaw("model server")
    assert status == 500
    assert eventually(lambda: pair.process.parts.workers not in ((), before))


def test_an_answer_that_takes_longer_than_nginx_waits_is_504(lib_alone: Double) -> None:
    # The gevent worker waits, but is not busy: Gunicorn lets it live.
    lib_alone.process.faults.freeze("model server")
    status = lib_alone.post({"instances": [ROW]}).status_code
    lib_alone.process.faults.thaw("model server")
    assert status == 504


def test_without_inference_py_rows_are_passed_on_unconverted(lib_alone: Endpoint) -> None:
    assert lib_alone.predictions({"instances": [ROW]}) == [[3.0, 6.0]]
    for body, kind in [(b"1.0,2.0", "text/csv"), (b"[[1.0, 2.0]]", "application/json")]:
        # The image's trap: Gunicorn is on, so NGINX converts no more.
        assert lib_alone.post(body, kind).status_code == 400


@pytest.mark.usefixtures("pair")
def test_every_record_is_replayed(folder: Path) -> None:
    # The first version of its model has three.
    assert "version 1: loaded in" in (said := (folder / "pair.log").read_text())
    assert "3 warm-up records replayed" in said


@pytest.mark.usefixtures("start")
def test_a_record_that_fails_keeps_the_model_from_loading(folder: Path) -> None:
    folders = {"numbers/1": archives.MODELS / "numbers" / "1"}
    files = {f"numbers/1/{archives.WARM_UP}": archives.warm_up("x", "y")}
    archive = archives.pack(folder / "warm.tar.gz", files, folders)
    with pytest.raises(LaunchError) as refusal:
        launch(archive, {}).close()
    said = "record 2: serving_default input names do not fit: extra ['y'], missing ['x']; "
    assert said in str(refusal.value)
