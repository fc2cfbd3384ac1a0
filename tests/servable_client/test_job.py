"""An asynchronous inference: into S3, and out of it."""

import json
import time
from collections.abc import Callable

import numpy as np
import pytest

from servable_client import (
    BadInputError,
    ConnectionLostError,
    DeadlineExceededError,
    Job,
    JobFailedError,
    NotAllowedError,
    PredictionError,
    UnreachableError,
)
from tests.servable_client.conftest import Connect
from tests.servable_client.runtime_server import PROTOBUF, RESET, Received, Reply, Server, doubled

X = np.arange(3.0)
OUTPUT, FAILURE = "/results/1.out", "/results/1-error.out"
Submit = Callable[..., Job]


@pytest.fixture
def submit(server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """An endpoint that puts its answers into the server's S3, or does not."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)

    def accepted(received: Received) -> Reply:
        said = json.dumps({"InferenceId": "1"}).encode()
        places = {"OutputLocation": f"s3:/{OUTPUT}", "FailureLocation": f"s3:/{FAILURE}"}
        headers = {f"X-Amzn-SageMaker-{name}": place for name, place in places.items()}
        return Reply(202, said, {"Content-Type": "application/json", **headers})

    server.answer = accepted
    return connect(upload_to="s3://requests/ranker/", sleep=lambda seconds: None).submit


def answer(server: Server) -> None:
    sent = next(one for one in server.received if one.method == "PUT")
    server.objects[OUTPUT] = (PROTOBUF, doubled(sent).body)


def test_a_job_is_done_when_its_answer_lies_in_s3(submit: Submit, server: Server) -> None:
    job = submit(x=X)
    assert not job.done()
    with pytest.raises(DeadlineExceededError, match="call result"):
        job.result(timeout_seconds=0.01)
    answer(server)
    assert job.done()
    assert job.result(timeout_seconds=20)["y"].tolist() == [0, 2, 4]


def test_a_request_is_put_where_the_endpoint_is_told_and_a_failure_says_why(
    server: Server, submit: Submit
) -> None:
    submit(x=X)
    put, invoked = server.received
    assert invoked.headers["x-amzn-sagemaker-inputlocation"] == f"s3:/{put.path}"
    assert put.path.startswith("/requests/ranker/")
    job = submit(x=X)
    server.objects[FAILURE] = ("text/plain", b"the model says no")
    with pytest.raises(JobFailedError, match="the model says no"):
        job.result(timeout_seconds=20)


def test_where_to_put_the_request_must_be_known(connect: Connect) -> None:
    for place in [None, "requests/ranker"]:
        with pytest.raises(BadInputError, match="s3://bucket/prefix/"):
            connect().submit(x=X, upload_to=place)


class Uploads:
    """Answers PUTs and POSTs of `submit` as it is told, and counts what was accepted."""

    def __init__(self, server: Server) -> None:
        self.jobs = 0
        self._accepted = server.answer
        self.puts: list[Reply] = []
        self.posts: list[Reply] = []
        server.answer = self._post_to_destination
        server.put = self._put

    def _put(self, received: Received) -> Reply:
        return self.puts.pop(0) if self.puts else Reply()

    def _post_to_destination(self, received: Received) -> Reply:
        reply = self.posts.pop(0) if self.posts else None
        if reply is None or reply.status == RESET:
            self.jobs += 1  # accepted, whether the client hears of it or not
        return reply or self._accepted(received)


@pytest.fixture
def uploads(server: Server, submit: Submit) -> Uploads:
    return Uploads(server)


@pytest.mark.parametrize(
    "reply",
    [Reply(RESET), Reply(503), Reply(500, b"<Error><Code>InternalError</Code></Error>"),
     Reply(503, b"<Error><Code>SlowDown</Code></Error>")],
    ids=["reset", "503", "500", "slow down"],
)  # fmt: skip
def test_an_upload_that_failed_is_repeated_to_the_same_place(
    server: Server, submit: Submit, uploads: Uploads, reply: Reply
) -> None:
    uploads.puts = [reply, reply]
    submit(x=X)
    puts = [one.path for one in server.received if one.method == "PUT"]
    assert (len(puts), len(set(puts)), uploads.jobs) == (3, 1, 1)


def test_how_often_uploads_and_jobs_were_sent_is_known(submit: Submit, uploads: Uploads) -> None:
    uploads.puts = [Reply(RESET)] * 6
    with pytest.raises(UnreachableError) as caught:
        submit(x=X)
    assert (caught.value.executed, caught.value.attempts, uploads.jobs) == ("no", 6, 0)
    uploads.puts = [Reply(403, b"<Error><Code>AccessDenied</Code></Error>")]
    with pytest.raises(NotAllowedError) as caught:
        submit(x=X)
    assert (caught.value.executed, caught.value.attempts, uploads.jobs) == ("no", 1, 0)
    uploads.posts = [Reply(RESET)]
    with pytest.raises(ConnectionLostError) as caught:
        submit(x=X)
    assert (caught.value.executed, caught.value.attempts, uploads.jobs) == ("maybe", 1, 1)


@pytest.mark.parametrize("reply", [Reply(RESET), Reply(503), Reply(200, b"x", announced_bytes=9)])
def test_a_failed_look_is_another_look(server: Server, submit: Submit, reply: Reply) -> None:
    job = submit(x=X)
    answer(server)
    looks = [reply, reply]
    server.get = lambda received: looks.pop(0) if looks else None
    assert job.result(timeout_seconds=20)["y"].tolist() == [0, 2, 4]


def test_s3_that_does_not_answer_ends_a_call_at_its_deadline(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", server.url)
    server.put = lambda received: Reply(before_seconds=30.0)
    began = time.monotonic()
    with pytest.raises(PredictionError) as caught:
        connect(upload_to="s3://requests/ranker/", timeout_seconds=0.5).submit(x=X)
    assert caught.value.executed == "no"
    assert time.monotonic() - began < 20  # the server waits longer, and boto3 would by itself


def test_pauses_between_looks_into_s3_grow_to_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still except while the job is waited for, in vain, for a minute."""
    now, pauses = [1000.0], []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", sleep)
    job = Job(
        inference_id="1", output_location="s3://a/b", failure_location=None, look=lambda: None
    )
    with pytest.raises(DeadlineExceededError):
        job.result(timeout_seconds=60)
    *before_the_last, _ = pauses
    expected = [min(5.0, 0.1 * 1.5**number) for number in range(len(before_the_last))]
    assert before_the_last == pytest.approx(expected)
    assert now[0] == pytest.approx(1060.0)
