"""An asynchronous inference: into S3, and out of it."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from servable_client import (
    BadInput,
    DeadlineExceeded,
    FakeEndpoint,
    Job,
    JobFailed,
)
from tests.client.conftest import Connect
from tests.client.predict_bodies import PROTOBUF, doubled
from tests.client.runtime_server import Received, Reply, RuntimeServer

X = np.arange(3.0)
OUTPUT, FAILURE = "/results/1.out", "/results/1-error.out"
Submit = Callable[..., Job]


@pytest.fixture
def submit(server: RuntimeServer, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """An endpoint that puts its answers into the server's S3, or does not."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)

    def accepted(received: Received) -> Reply:
        said = json.dumps({"InferenceId": "1"}).encode()
        headers = {
            "Content-Type": "application/json",
            "X-Amzn-SageMaker-OutputLocation": f"s3:/{OUTPUT}",
            "X-Amzn-SageMaker-FailureLocation": f"s3:/{FAILURE}",
        }
        return Reply(202, said, headers)

    server.answer = accepted
    return connect(upload_to="s3://requests/ranker/").submit


def answer(server: RuntimeServer) -> None:
    sent = next(one for one in server.received if one.method == "PUT")
    server.objects[OUTPUT] = (PROTOBUF, doubled(sent).body)


def test_the_answer_is_what_lies_in_s3(server: RuntimeServer, submit: Submit) -> None:
    job = submit(x=X)
    answer(server)
    assert job.result(timeout_seconds=20)["y"].tolist() == [0, 2, 4]


def test_the_request_is_put_where_the_endpoint_is_told(
    server: RuntimeServer, submit: Submit
) -> None:
    submit(x=X)
    put, invoked = server.received
    assert invoked.headers["x-amzn-sagemaker-inputlocation"] == f"s3:/{put.path}"
    assert put.path.startswith("/requests/ranker/")


def test_a_job_that_is_not_done_says_so(submit: Submit) -> None:
    assert not submit(x=X).done()


def test_a_job_that_takes_longer_can_be_asked_again(server: RuntimeServer, submit: Submit) -> None:
    job = submit(x=X)
    with pytest.raises(DeadlineExceeded, match="call result"):
        job.result(timeout_seconds=0.01)
    answer(server)
    assert job.done()


def test_a_job_that_failed_says_why(server: RuntimeServer, submit: Submit) -> None:
    job = submit(x=X)
    server.objects[FAILURE] = ("text/plain", b"the model says no")
    with pytest.raises(JobFailed, match="the model says no"):
        job.result(timeout_seconds=20)


@pytest.mark.parametrize("place", [None, "requests/ranker"])
def test_where_to_put_the_request_must_be_known(connect: Connect, place: str | None) -> None:
    with pytest.raises(BadInput, match="s3://bucket/prefix/"):
        connect().submit(x=X, upload_to=place)


def test_a_fake_endpoint_has_jobs_too() -> None:
    job = FakeEndpoint(lambda x: {"y": x}).submit(x=X)
    assert job.result(timeout_seconds=0)["y"].tolist() == [0, 1, 2]
