"""The simulator against queues whose answers are known exactly."""

import numpy as np
import pytest

from servable_scaling.rehearsal.queueing import erlang_c
from tests.servable.tune.queueing import mmc_highest_rate, mmc_latency_above, simulate


def test_the_simulator_agrees_with_erlang() -> None:
    # Source: Erlang C table, 5 servers and 4 erlangs offered: 0.5541.
    assert erlang_c(5, 4.0) == pytest.approx(0.5541, abs=5e-5)
    for percent in [50, 95]:
        run = simulate(4, 10.0, load=320, loop="open", seconds=150, seed=1)
        measured = float(np.percentile(run.latencies_ms, percent)) / 1000
        above = mmc_latency_above(measured, rate=320, service_rate=100, servers=4)
        assert above == pytest.approx(1 - percent / 100, rel=0.1)
    run = simulate(4, 10.0, load=16, loop="closed", seconds=50)
    assert run.throughput_rps == pytest.approx(400, rel=0.02)

    rate = mmc_highest_rate(99, 60, service_rate=100, servers=4)
    above = mmc_latency_above(0.060, rate=rate, service_rate=100, servers=4)
    assert above == pytest.approx(0.01, rel=1e-3)


def test_the_same_seed_gives_the_same_run() -> None:
    once, again = (simulate(4, 10.0, load=6, loop="closed", seconds=2, seed=3) for _ in range(2))
    assert once.finished_at.tolist() == again.finished_at.tolist()
