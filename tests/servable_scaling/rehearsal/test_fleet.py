"""Instances that queue: what waits and is refused, against exact results and a simulation of events."""

import heapq
import math
import random
from collections import deque
from statistics import NormalDist

import numpy as np
import pytest

from servable_scaling.rehearsal.fleet import (
    Cohort,
    InstanceModel,
    QueuedFleet,
    Routing,
    Service,
    build_quantile_cells,
    compute_erlang_c,
    compute_mean_wait,
    compute_percentile,
    compute_steady_part,
)

LOGNORMAL = Service(0.02, 0.05)
CONSTANT = Service(0.1, 0.1)
IDLE = (1.0, 0.0, 0.0, 0.0)


def fleet(count: int = 1, routing: Routing = "random", queue: float = 1000) -> QueuedFleet:
    return QueuedFleet(InstanceModel(10, CONSTANT, queue), routing, count)


def test_the_service_time_is_lognormal_and_its_cells_finer_in_the_tail() -> None:
    sigma = math.log(2.5) / NormalDist().inv_cdf(0.99)
    shown = (LOGNORMAL.sigma, LOGNORMAL.mean_seconds, LOGNORMAL.variation)
    assert shown == pytest.approx((sigma, 0.02 * math.exp(sigma**2 / 2), math.exp(sigma**2) - 1))
    assert (Service(0.1, 0.05).sigma, Service(0.1, 0.05).mean_seconds) == (0, 0.1)
    cells = build_quantile_cells()
    begins = [sum(share for share, _ in cells[:index]) for index in range(len(cells))]
    assert sum(share for share, _ in cells) == pytest.approx(1)
    assert [middle for _, middle in cells] == pytest.approx(
        [begin + share / 2 for begin, (share, _) in zip(begins, cells, strict=True)]
    )
    assert [share for share, _ in cells] == sorted((share for share, _ in cells), reverse=True)


# At the end of a cell the percentile is the cell's middle: up to 7.5 % less than it is.
def test_a_percentile_is_the_lognormals_and_the_waits_and_weighs_parts() -> None:
    for share, within in [
        (0.5, 0.03),
        (0.7125, 0.01),
        (0.9, 0.075),
        (0.985, 0.01),
        (0.99, 0.075),
        (0.9985, 0.01),
    ]:
        seconds = 0.02 * math.exp(LOGNORMAL.sigma * NormalDist().inv_cdf(share))
        assert compute_percentile(LOGNORMAL, (IDLE,), share) == pytest.approx(seconds, rel=within)
    for share in [0.2, 0.5, 0.95, 0.99]:
        waiting = (1.0, 0.3, 0.8, 0.25)
        wait = max(0.0, 0.25 * math.log(0.8 / (1 - share)))
        told = compute_percentile(CONSTANT, (waiting,), share)
        assert told == pytest.approx(0.4 + wait, rel=2e-3)

    parts = ((0.9, 0.0, 0.0, 0.0), (0.1, 5.0, 0.0, 0.0))
    found = [compute_percentile(CONSTANT, parts, share) for share in (0.89, 0.91)]
    assert found == pytest.approx([0.1, 5.1], rel=1e-3)
    parts = ((0.5, 0.0, 0.0, 0.0), (0.5, 5.0, 0.0, 0.0))
    assert compute_percentile(CONSTANT, parts, 0.9) == pytest.approx(5.1, rel=1e-3)


def test_the_servers_are_the_rate_times_the_service_time_and_wait_by_formula() -> None:
    for rate, servers in [(10, 1), (24, 2), (26, 3), (1, 1)]:
        assert InstanceModel(rate, CONSTANT, 10).servers == servers
    # Erlang's C of one server is its load; of two it is 2a²/((2-a)(1+a))... written for a = 1: 1/3.
    for servers, load, waits in [(1, 0.3, 0.3), (2, 1.0, 1 / 3)]:
        assert compute_erlang_c(servers, load) == pytest.approx(waits)
    for variation in [0.0, 0.5, 1.0, 3.0]:
        wait = compute_mean_wait(servers=1, use=0.8, mean_seconds=2, variation=variation)
        assert wait == pytest.approx(0.8 / 0.2 * (1 + variation) / 2 * 2)
    assert compute_steady_part(InstanceModel(10, CONSTANT, 10), 0, 1) == IDLE
    assert compute_steady_part(InstanceModel(1000, CONSTANT, 10), 0.3, 1) == IDLE

    share, delay, waits, each = compute_steady_part(InstanceModel(10, CONSTANT, 1000), 0.8, 1)
    assert (share, delay, waits) == pytest.approx((1, 0, 0.8))
    wait = compute_mean_wait(servers=1, use=0.8, mean_seconds=0.1, variation=0)
    assert waits * each == pytest.approx(wait)

    assert compute_steady_part(InstanceModel(10, CONSTANT, 2), 0.99, 1)[3] == pytest.approx(0.2)
    for use in [0.995, 0.999, 1.5]:
        model = InstanceModel(10, Service(0.1, 1.0), 1e9)
        spread = math.sqrt(60 * (1 + model.service.variation) / 10)
        assert compute_steady_part(model, use, 1)[3] == pytest.approx(spread)


def test_the_use_and_the_refused_are_of_every_instance_and_the_newest_go_first() -> None:
    assert fleet(2).serve(600).use == pytest.approx(0.5)
    minute = fleet(0).serve(70)
    assert (minute.parts, minute.refused, minute.use) == ([], 70, 0)

    several = fleet(2)
    several.add(0)
    assert (several.count, len(several.cohorts)) == (2, 1)

    several = fleet(2)
    several.add(3)
    several.serve(0)
    assert several.cohorts == [Cohort(5)]

    several = fleet(2)
    several.serve(2 * 700)
    several.add(3)
    several.remove(4)
    assert [(one.count, round(one.backlog, 6)) for one in several.cohorts] == [(1, 100)]

    several = fleet(2)
    several.remove(5)
    assert (several.count, several.cohorts) == (0, [])
    assert fleet(3, queue=40).serve(3 * 700).refused == pytest.approx(180)


def test_a_backlog_delays_each_quarter_of_a_minute_and_behind_the_last_place_nobody_waits() -> None:
    single = fleet()
    single.serve(700)
    single.serve(550)
    assert single.cohorts[0].backlog == pytest.approx(50)

    single = fleet()
    single.serve(700)
    delays = [delay for _, delay, _, _ in single.serve(400).parts]
    assert delays == pytest.approx([7.5, 2.5, 0, 0], abs=2e-3)
    for queue in [1000, 60]:
        delays = [delay for _, delay, _, _ in fleet(queue=queue).serve(700).parts]
        waiting = [min(queue, 100 * quarter) for quarter in (0.125, 0.375, 0.625, 0.875)]
        assert delays == pytest.approx([one / 10 for one in waiting], abs=6e-4)

    assert [part[0] for part in fleet().serve(700).parts] == [0.25] * 4
    assert [each for *_, each in fleet(queue=60).serve(700).parts][-2:] == [0, 0]


USES = (0.5, 0.8, 0.95)
SERVERS = (1, 4, 36)


def markov(servers: int, use: float) -> float:
    """Mean wait of M/M/c in service times: the sum over its states, as Erlang wrote it."""
    load = servers * use
    states = [math.exp(k * math.log(load) - math.lgamma(k + 1)) for k in range(servers)]
    full = math.exp(servers * math.log(load) - math.lgamma(servers + 1)) / (1 - use)
    return full / (sum(states) + full) / (servers * (1 - use))


def constant(servers: int, use: float) -> float:
    """Mean wait of M/D/c in service times: Crommelin's chain, from one service time to the next, solved."""
    load, states = servers * use, int(2 * servers + 15 / (1 - use) + 60)
    k = np.arange(states)
    poisson = np.exp(k * math.log(load) - load - np.array([math.lgamma(one + 1) for one in k]))
    chain = np.zeros((states, states))
    for state in k:
        left = max(int(state) - servers, 0)
        chain[state, left:] = poisson[: states - left]
        chain[state, -1] += 1 - chain[state].sum()
    equations = chain.T - np.eye(states)
    equations[-1] = 1
    share = np.linalg.solve(equations, np.eye(states)[-1])
    return float((np.maximum(k - servers, 0) * share).sum() / load)


@pytest.mark.long
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("servers", SERVERS)
def test_the_mean_wait_is_within_3_percent_of_m_m_c_and_m_d_c(servers: int, use: float) -> None:
    found = compute_mean_wait(servers=servers, use=use, mean_seconds=1, variation=1)
    assert found == pytest.approx(markov(servers, use), rel=0.03)
    found = compute_mean_wait(servers=servers, use=use, mean_seconds=1, variation=0)
    assert found == pytest.approx(constant(servers, use), rel=0.03)


def simulated(model: InstanceModel, routing: Routing, instances: int, use: float) -> float:
    """Mean seconds of a response, event by event."""
    source, sigma = random.Random(7), model.service.sigma
    now, busy, arrival = 0.0, [0] * instances, 0.0
    queues: list[deque[tuple[float, float]]] = [deque() for _ in busy]
    ends: list[tuple[float, int]] = []
    answered: list[float] = []
    for _ in range(30_000):
        arrival += source.expovariate(instances * use * model.rate_rps)
        while ends and ends[0][0] <= arrival:
            now, where = heapq.heappop(ends)
            busy[where] -= 1
            if queues[where]:
                came, takes = queues[where].popleft()
                heapq.heappush(ends, (now + takes, where))
                answered.append(now + takes - came)
        takes = model.service.p50_seconds * math.exp(source.gauss(0, sigma))
        least = min(busy)
        any_of = [one for one in range(instances) if routing == "random" or busy[one] == least]
        where = source.choice(any_of)
        busy[where] += 1
        if busy[where] <= model.servers:
            heapq.heappush(ends, (arrival + takes, where))
            answered.append(takes)
        else:
            queues[where].append((arrival, takes))
    return sum(answered) / len(answered)


@pytest.mark.long
@pytest.mark.parametrize(("routing", "instances", "servers", "use"), [
    ("random", 4, 2, 0.5),
    ("least_outstanding_requests", 2, 4, 0.8),
    ("least_outstanding_requests", 6, 1, 0.8),
])  # fmt: skip
def test_routing_is_within_5_percent_of_a_simulation_of_events(
    routing: Routing, instances: int, servers: int, use: float
) -> None:
    service = Service(0.1, 0.3)
    model = InstanceModel(servers / service.mean_seconds, service, queue=1000)
    fleet = QueuedFleet(model, routing, instances)
    ((_, delay, waits, each),) = fleet.serve(use * model.rate_rps * 60 * instances).parts
    found = service.mean_seconds + delay + waits * each
    assert found == pytest.approx(simulated(model, routing, instances, use), rel=0.05)


def test_a_new_instance_begins_without_the_backlog_unless_routing_evens_it_out() -> None:
    fleet = QueuedFleet(InstanceModel(10, Service(0.1, 0.2), queue=1000), "random", 1)
    fleet.serve(700)
    fleet.add(1)
    fleet.serve(1200)
    assert sorted(cohort.backlog for cohort in fleet.cohorts) == pytest.approx([0, 100])
    model = InstanceModel(10, Service(0.1, 0.2), queue=1000)
    fleet = QueuedFleet(model, "least_outstanding_requests", 1)
    fleet.serve(700)
    fleet.add(1)
    fleet.serve(1200)
    assert [cohort.backlog for cohort in fleet.cohorts] == pytest.approx([50])
