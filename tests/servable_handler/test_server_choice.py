"""servable_handler/transport/model_servers.py, on a clock that the tests turn."""

import random

import hypothesis.strategies as st
from hypothesis import given

from servable_handler.transport.model_servers import PROBE_ANYWAY_SECONDS, ServerChoice


class Clock:
    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def used(choice: ServerChoice, clock: Clock, latencies: list[float], requests: int) -> list[int]:
    """How many requests each server got, one after the other."""
    counts = [0] * len(latencies)
    for _ in range(requests):
        number = choice.take()
        clock.seconds += latencies[number]
        choice.give_back(number, latencies[number])
        counts[number] += 1
    return counts


def test_a_slow_server_gets_few_requests_until_it_is_fast() -> None:
    clock = Clock()
    assert min(used(ServerChoice(4, clock), clock, [0.002] * 4, 8)) >= 1
    assert used(ServerChoice(4, clock), clock, [0.002, 0.002, 0.002, 0.052], 5000)[3] < 50

    clock = Clock()
    choice = ServerChoice(2, clock)
    used(choice, clock, [0.0001, 0.05], 100)
    began = clock.seconds
    assert 1 <= used(choice, clock, [0.0001, 0.05], 50_000)[1] <= clock.seconds - began + 1

    clock = Clock()
    choice = ServerChoice(2, clock)
    used(choice, clock, [0.002, 0.05], 500)
    used(choice, clock, [0.002, 0.001], 3000)
    assert used(choice, clock, [0.002, 0.001], 100)[1] > 90

    clock = Clock()
    choice = ServerChoice(2, clock)
    used(choice, clock, [0.002, 0.05], 20)
    clock.seconds += PROBE_ANYWAY_SECONDS
    assert used(choice, clock, [0.002, 0.05], 2)[1] == 1


def test_requests_that_wait_count() -> None:
    clock = Clock()
    choice = ServerChoice(2, clock)
    used(choice, clock, [0.002, 0.003], 50)
    assert sorted(choice.take() for _ in range(5)) == [0, 0, 0, 1, 1]
    choice = ServerChoice(2, Clock())
    choice.give_back(choice.take(), 0.002)
    assert sorted(choice.take() for _ in range(4)) == [0, 0, 1, 1]


def test_a_server_set_aside_gets_nothing_until_it_is_brought_back_or_all_are() -> None:
    clock = Clock()
    choice = ServerChoice(2, clock)
    choice.set_aside(0)
    assert used(choice, clock, [0.001, 0.05], 500) == [0, 500]
    used(choice, clock, [0.001, 0.001], 10)
    choice.bring_back(0)
    assert choice.take() == 0

    choice = ServerChoice(2, Clock())
    choice.set_aside(0)
    choice.set_aside(1)
    assert choice.take() in (0, 1)

    choice = ServerChoice(2, Clock())
    assert choice.take(avoid=choice.take()) == 1
    choice = ServerChoice(1, Clock())
    assert choice.take(avoid=choice.take()) == 0
    choice = ServerChoice(2, Clock())
    assert (choice.set_aside(0), choice.set_aside(0)) == (True, False)


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_nothing_is_outstanding_when_all_is_given_back(seed: int, count: int) -> None:
    drawn, clock = random.Random(seed), Clock()
    choice = ServerChoice(count, clock)
    taken: list[int] = []
    for _ in range(50):
        clock.seconds += drawn.random()
        if taken and drawn.random() < 0.5:
            choice.give_back(taken.pop(), drawn.choice([None, drawn.random()]))
        else:
            taken.append(choice.take())
    for number in taken:
        choice.give_back(number, 0.01)
    assert [server.outstanding for server in choice._servers] == [0] * count
