"""The sending process of a replay: what it sends and when, and the answers that it gives."""

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import psutil
import pytest

from servable.captured.lines import CapturedRequest
from servable.measured.measurement import LoadError, LoadTarget, build_container_target
from servable.replay import run as sending
from servable.replay.run import ReplayPace, ReplaySender
from tests.servable.replay.captures import NINE, request
from tests.servable.tune.servers import OK, Answer, Server

pytestmark = pytest.mark.long

OFF = "http://127.0.0.1:1/invocations"
GIVEN = [
    (NINE + 10, request(0, accept="a/b", custom_attributes="tier=gold", target_model="m")),
    (NINE + 11, request(1, content_type="text/csv")),
    (NINE + 11.5, request(2)),
]


def test_requests_are_sent_as_captured_when_due_and_stand_with_their_own_whole_answers() -> None:
    came: list[float] = []
    last = threading.Event()

    def answer(number: int, headers: dict[str, str], body: bytes) -> Answer:
        came.append(time.perf_counter())
        if number == 0:
            assert last.wait(30)
        elif number == 2:
            last.set()
            return 500, {"Content-Type": "text/plain"}, b"out of order" * 1000
        return 200, {"Content-Type": headers["Content-Type"]}, body * 2

    with Server(answer) as server:
        targets = [build_container_target(server.url), LoadTarget(url=OFF)]
        with ReplaySender(targets, ReplayPace()) as sender:
            several = list(sender.replay(GIVEN))
    assert several[0].request.event_id == "event-1"  # the first request is answered later
    replayed = sorted(several, key=lambda pair: pair.request.event_id)
    assert [pair.request for pair in replayed] == [captured for _, captured in GIVEN]
    due = [at - pair.send_lag_ms / 1000 for at, pair in zip(came, replayed, strict=True)]
    assert [moment - due[0] for moment in due] == pytest.approx([0, 1, 1.5], abs=0.4)

    (headers, first), (other, second), _ = server.asked
    assert (first, second) == (GIVEN[0][1].body, GIVEN[1][1].body)
    attributes = "X-Amzn-SageMaker-Custom-Attributes"
    wanted = {"Content-Type": "application/json", "Accept": "a/b", attributes: "tier=gold"}
    assert wanted.items() <= headers.items()
    assert (other["Content-Type"], attributes in other) == ("text/csv", False)
    assert server.paths == {"/models/m/invoke", "/invocations"}

    names = attrgetter("status", "content_type", "body", "error")
    assert [names(pair.answered) for pair in replayed] == [
        (200, "application/json", first * 2, ""),
        (200, "text/csv", second * 2, ""),
        (500, "text/plain", b"out of order" * 1000, ""),
    ]
    assert all((pair.answered.latency_ms or 0) > 0 for pair in replayed)
    for pair in replayed:
        assert pair.other is not None
        assert (pair.other.status, pair.other.body, bool(pair.other.error)) == (None, b"", True)


def test_a_process_that_refuses_or_ends_is_reported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    signed = LoadTarget(url=OFF, signing_region="eu-west-1")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    none = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), "/dev/null")
    none["AWS_EC2_METADATA_DISABLED"] = "true"
    with pytest.raises(LoadError, match="credentials"):
        ReplaySender([signed], ReplayPace(), variables=kept | none)

    with ReplaySender([LoadTarget(url=OFF)], ReplayPace()) as sender:
        sender._process.kill()
        with pytest.raises(LoadError, match="the replay's sending process has ended"):
            list(sender.replay(GIVEN * 100))

    (tmp_path / "ends.py").write_text("raise SystemExit('\\n'.join(map(str, range(12))))")
    monkeypatch.setattr(sending, "_MODULE", "ends")
    with pytest.raises(LoadError) as raised:
        ReplaySender([signed], ReplayPace(), variables={**os.environ, "PYTHONPATH": str(tmp_path)})
    ended, *lines = str(raised.value).splitlines()
    assert ended == "the replay's sending process has ended."
    assert lines == [str(number) for number in range(2, 12)]


def test_unreadable_requests_are_reported_after_all_answers_and_the_process_ends() -> None:
    def breaking() -> Iterator[tuple[float, CapturedRequest]]:
        yield GIVEN[0]
        raise OSError("gone")

    answered: list[str] = []
    with ReplaySender([LoadTarget(url=OFF)], ReplayPace()) as sender:
        process = psutil.Process(sender._process.pid)
        assert os.getpgid(process.pid) == process.pid  # Ctrl-C reaches this process only
        with pytest.raises(OSError, match="gone"):
            answered.extend(pair.request.event_id for pair in sender.replay(breaking()))
    assert answered == ["event-0"]
    sender.close()  # a second time changes nothing
    assert not process.is_running()
    assert (sender._input.closed, sender._output.closed) == (True, True)


def test_two_targets_take_turns_at_being_first_and_are_signed_by_the_given_variables() -> None:
    variables = {**os.environ, "AWS_ACCESS_KEY_ID": "GIVEN", "AWS_SECRET_ACCESS_KEY": "nothing"}
    with Server() as server:
        signed = LoadTarget(url=f"{server.url}/", signing_region="eu-west-1")
        targets = [replace(signed, headers={"X-Name": name}) for name in "ab"]
        with ReplaySender(targets, ReplayPace(), variables=variables) as sender:
            list(sender.replay((NINE, request(number)) for number in range(2)))
    for number, names in enumerate(("ab", "ba")):
        sent = [headers for headers, body in server.asked if body == request(number).body]
        assert [headers["X-Name"] for headers in sent] == [*names]
        assert all(" Credential=GIVEN/" in headers["Authorization"] for headers in sent)


@pytest.mark.parametrize(
    ("objective_ms", "status", "before", "after"),
    [(None, 200, 32, 32), (60_000, 200, 2, 3), (0.001, 200, 2, 1), (60_000, 500, 2, 1)],
)
def test_the_first_100_responses_decide_how_many_requests_are_sent_at_once(
    objective_ms: float | None, status: int, before: int, after: int
) -> None:
    """A response comes when as many requests are here as may be sent at once."""
    lock, here, most = threading.Lock(), set[int](), Counter[bool]()
    first, then = threading.Barrier(before), threading.Barrier(after)

    def answer(number: int, headers: dict[str, str], body: bytes) -> Answer:
        with lock:
            here.add(number)
            # The hundredth response may be under way when the next request comes.
            most[number > 100] = max(most[number > 100], len(here))
        (first if number < 100 else then).wait(timeout=30)
        with lock:
            here.remove(number)
        return status, *OK[1:]

    count = 64 if objective_ms is None else 109
    pace = ReplayPace(as_fast=True, objective_ms=objective_ms)
    with Server(answer) as server:
        target = build_container_target(server.url)
        with ReplaySender([target], pace) as sender:
            pairs = list(sender.replay((NINE, request(number)) for number in range(count)))
    assert {pair.answered.status for pair in pairs} == {status}
    assert most == ({False: before} if objective_ms is None else {False: before, True: after})
