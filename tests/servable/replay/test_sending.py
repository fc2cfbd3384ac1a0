"""The sending process of a replay: the plan and the requests that it gets, and the answers that it gives."""

import json
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import psutil
import pytest

from servable.captured.lines import CapturedRequest
from servable.measured.measurement import LoadError, LoadTarget, build_container_target
from servable.replay import run as sending
from servable.replay.answers import AnswerPair
from servable.replay.run import ReplayPace, ReplaySender
from tests.servable.replay.captures import NINE, request
from tests.servable.replay.echo_worker import SEND_LAG_MS
from tests.servable.tune.servers import OK, Answer, Server

TARGET = LoadTarget(
    url="http://127.0.0.1:9/a", headers={"X-A": "b"}, signing_region="eu-west-1", timeout_seconds=7
)
OTHER = LoadTarget(url="http://127.0.0.1:9/other")
PACE = ReplayPace(as_fast=True, objective_ms=80.0)
GIVEN = [
    (NINE + 10, request(0, accept="a/b", custom_attributes="tier=gold", target_model="m")),
    (NINE + 12, request(1, content_type="text/csv")),
    (NINE + 13, request(2)),
]


def echoed(replayed: AnswerPair) -> dict[str, Any]:
    """The message that the process got for a request."""
    parsed: dict[str, Any] = json.loads(replayed.answered.body.partition(b"\n")[0])
    return parsed


@pytest.fixture
def echoes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_MODULE", "tests.servable.replay.echo_worker")


@pytest.mark.long
def test_every_answer_of_both_targets_stands_with_its_own_request(echoes: None) -> None:
    variables = {**os.environ, "GIVEN": "to the process"}
    with ReplaySender([TARGET, OTHER], PACE, variables=variables) as sender:
        echo = list(sender.replay(GIVEN))
    by_number = sorted(echo, key=lambda pair: pair.request.event_id)
    targets = [asdict(TARGET), asdict(OTHER)]
    assert echoed(by_number[0])["plan"] == {"targets": targets, "pace": [True, 80.0]}
    assert [echoed(replayed)["due"] for replayed in by_number] == [0.0, 2.0, 3.0]
    assert echoed(by_number[0])["variables"] == {"GIVEN": "to the process"}

    bodies = [replayed.answered.body.partition(b"\n")[2] for replayed in echo]
    assert [replayed.request.body for replayed in echo] == bodies
    assert [replayed.request.event_id for replayed in echo] == ["event-1", "event-0", "event-2"]
    nothing = dict.fromkeys(("custom_attributes", "accept", "target_model"))
    headers = {"custom_attributes": "tier=gold", "accept": "a/b", "target_model": "m"}
    assert [echoed(replayed)["headers"] for replayed in by_number[:2]] == [
        {"content_type": "application/json", **headers},
        {"content_type": "text/csv", **nothing},
    ]

    first, second = by_number[0].answered, by_number[0].other
    assert second is not None
    assert second.body == first.body + b"!"
    heads = [(one.status, one.content_type, one.latency_ms, one.error) for one in (first, second)]
    assert heads == [(200, "t/0", 5.0, ""), (201, "t/1", 6.0, "")]
    assert by_number[0].send_lag_ms == SEND_LAG_MS


@pytest.mark.long
def test_a_process_that_refuses_or_ends_is_reported(echoes: None) -> None:
    with pytest.raises(LoadError, match=r"^no credentials$"):
        ReplaySender([build_container_target("http://127.0.0.1:9/refuses")], ReplayPace())

    with pytest.raises(LoadError) as raised:
        ReplaySender([build_container_target("http://127.0.0.1:9/ends")], ReplayPace())
    ended, *lines = str(raised.value).splitlines()
    assert ended == "the replay's sending process has ended."
    assert lines == [f"line {number}" for number in range(2, 12)]

    ending = [build_container_target("http://127.0.0.1:9/ends-later")]
    ended = "the replay's sending process has ended"
    with ReplaySender(ending, ReplayPace()) as sender, pytest.raises(LoadError, match=ended):
        list(sender.replay(GIVEN * 100))


@pytest.mark.long
def test_unreadable_requests_are_reported_after_all_answers_and_the_process_ends(
    echoes: None,
) -> None:
    def breaking() -> Iterator[tuple[float, CapturedRequest]]:
        yield GIVEN[0]
        raise OSError("gone")

    answered: list[str] = []
    with ReplaySender([TARGET], PACE) as sender:
        process = psutil.Process(sender._process.pid)
        assert os.getpgid(process.pid) == process.pid  # Ctrl-C reaches this process only
        with pytest.raises(OSError, match="gone"):
            answered.extend(pair.request.event_id for pair in sender.replay(breaking()))
    assert answered == ["event-0"]
    sender.close()  # a second time changes nothing
    assert not process.is_running()
    assert (sender._input.closed, sender._output.closed) == (True, True)


# The real process from here on.


def model(number: int, headers: dict[str, str], body: bytes) -> Answer:
    return (500, {"Content-Type": "text/plain"}, b"out of order" * 1000) if b"[1]" in body else (
        200, {"Content-Type": headers["Content-Type"]}, body * 2
    )  # fmt: skip


@pytest.mark.long
def test_requests_are_sent_as_captured_and_whole_answers_and_errors_come_back() -> None:
    off = LoadTarget(url="http://127.0.0.1:1/invocations")
    paced = [(NINE + 0.01 * number, request(number)) for number in range(3)]
    last = replace(GIVEN[0][1], event_id="event-3", content_type="text/csv", body=b"3")
    with Server(model) as server:
        targets = [build_container_target(server.url), off]
        with ReplaySender(targets, ReplayPace()) as sender:
            several = sender.replay([*paced, (NINE + 0.03, last)])
            replayed = {pair.request.event_id: pair for pair in several}
    assert sorted(replayed) == [f"event-{number}" for number in range(4)]
    (headers,) = [headers for headers, body in server.asked if body == last.body]
    wanted = {"Content-Type": "text/csv", "Accept": "a/b"}
    wanted["X-Amzn-SageMaker-Custom-Attributes"] = "tier=gold"
    assert wanted.items() <= headers.items()
    assert "/models/m/invoke" in server.paths

    answered = replayed["event-3"].answered
    assert (answered.status, answered.content_type, answered.body) == (200, "text/csv", b"33")
    answered = replayed["event-1"].answered
    assert (answered.status, answered.body, answered.error) == (500, b"out of order" * 1000, "")

    other = replayed["event-0"].other
    assert other is not None
    assert (other.status, other.body, bool(other.error)) == (None, b"", True)


@pytest.mark.long
def test_two_targets_take_turns_at_being_first() -> None:
    with Server() as server:
        targets = [LoadTarget(url=f"{server.url}/", headers={"X-Name": name}) for name in "ab"]
        with ReplaySender(targets, ReplayPace()) as sender:
            list(sender.replay((NINE, request(number)) for number in range(2)))
    for number, names in enumerate(("ab", "ba")):
        sent = [headers for headers, body in server.asked if body == request(number).body]
        assert [headers["X-Name"] for headers in sent] == [*names]


@pytest.mark.long
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
