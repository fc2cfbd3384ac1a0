"""Several model servers, each of which collects requests."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.asking import Endpoint

pytestmark = pytest.mark.long

ROW = [1.0, 2.0]
ONE = {"signature_name": "batch", "instances": [ROW]}


def _at_once(batching: Endpoint, count: int) -> list[int]:
    """Statuses of so many requests of one row, sent together."""
    with ThreadPoolExecutor(count) as callers:
        answers = list(callers.map(lambda _: batching.do("pass_on", ONE), range(count)))
    return [answer.json()["predictions"][0] for answer in answers if "predictions" in answer.json()]


def test_requests_are_computed_together_up_to_the_size_of_a_batch(batching: Endpoint) -> None:
    # What the model says of the rows it was given: some had company.
    assert max(_at_once(batching, 6)) > 1
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
    found = batching.do("the_environment", ["TFS_GRPC_PORTS", "TFS_REST_PORTS"]).json()
    grpc, rest = (list(map(int, found[name].split(","))) for name in found)
    low = grpc[0]
    assert (grpc, rest) == ([low, low + 2], [low + 1, low + 3])
    shown = [batching.do("the_context").json() for _ in range(40)]
    assert len({(one["grpc_port"], one["rest_uri"]) for one in shown}) == 4
    assert batching.do("the_context").json()["timeout"] == 50.0

    found = batching.do("the_environment", ["SAGEMAKER_SAFE_PORT_RANGE", "TFS_GRPC_PORTS"]).json()
    low, high = map(int, found["SAGEMAKER_SAFE_PORT_RANGE"].split("-"))
    assert low == int(found["TFS_GRPC_PORTS"].split(",")[0]) < low + 4 <= high


def test_workers_and_threads_answer_side_by_side(batching: Endpoint) -> None:
    with ThreadPoolExecutor(8) as callers:
        shown = list(callers.map(lambda _: batching.do("the_process").json(), range(80)))
    assert len({one["pid"] for one in shown}) == 2
    # Eight calls that wait 0.5 s each, in 2 workers of 8 threads: one after the other were 2 s.
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: batching.do("sleep", b"0.5").text, range(8)))
    assert answers == ["slept"] * 8
