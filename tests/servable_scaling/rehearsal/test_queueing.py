"""The queue of one instance against exact results, and routing against a simulation of events."""

import heapq
import math
import random
from collections import deque

import numpy as np
import pytest

from servable_scaling.rehearsal.fleet import (
    InstanceModel,
    QueuedFleet,
    Routing,
    Service,
    compute_mean_wait,
)

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
