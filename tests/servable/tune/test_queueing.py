"""The simulator against queues whose answers are known exactly."""

import numpy as np
import pytest

from servable_scaling.rehearsal.fleet import erlang_c
from tests.servable.tune.queueing import mmc_highest_rate, mmc_latency_above, simulate


def test_erlang_c_is_the_table_s_value() -> None:
    # Source: Erlang C table, 5 servers and 4 erlangs offered: 0.5541.
    assert erlang_c(5, 4.0) == pytest.approx(0.5541, abs=5e-5)


@pytest.mark.parametrize("percent", [50, 95])
def test_four_servers_are_as_slow_as_erlang_says(percent: int) -> None:
    run = simulate(4, 10.0, load=320, loop="open", seconds=150, seed=1)
    measured = float(np.percentile(run.latencies_ms, percent)) / 1000
    above = mmc_latency_above(measured, rate=320, service_rate=100, servers=4)
    assert above == pytest.approx(1 - percent / 100, rel=0.1)


def test_users_of_a_closed_loop_keep_every_server_busy() -> None:
    run = simulate(4, 10.0, load=16, loop="closed", seconds=50)
    assert run.throughput_rps == pytest.approx(400, rel=0.02)


def test_the_same_seed_gives_the_same_run() -> None:
    once, again = (simulate(4, 10.0, load=6, loop="closed", seconds=2, seed=3) for _ in range(2))
    assert once.finished_at.tolist() == again.finished_at.tolist()


def test_the_highest_rate_of_a_known_queue_meets_its_objective() -> None:
    rate = mmc_highest_rate(99, 60, service_rate=100, servers=4)
    above = mmc_latency_above(0.060, rate=rate, service_rate=100, servers=4)
    assert above == pytest.approx(0.01, rel=1e-3)
