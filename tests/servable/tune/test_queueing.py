"""The simulator against queues whose answers are known exactly."""

import numpy as np
import pytest

from benchmarks.queueing.known import (
    erlang_c,
    md1_wait_seconds,
    mmc_highest_rate,
    mmc_percentile_ms,
)
from benchmarks.queueing.simulation import simulate
from benchmarks.queueing.system import SimulatedBatching, System, Work

ANY_NUMBER = 10**9
FOUR = System(cores=4, workers=ANY_NUMBER, calls_at_once=4, work=Work(call_ms=10))


def test_erlang_c_is_the_table_s_value() -> None:
    # Source: Erlang C table, 5 servers and 4 erlangs offered: 0.5541.
    assert erlang_c(5, 4.0) == pytest.approx(0.5541, abs=5e-5)


@pytest.mark.parametrize("percent", [50, 95])
def test_four_servers_are_as_slow_as_erlang_says(percent: int) -> None:
    run = simulate(FOUR, rate_rps=320, seconds=150, seed=1)
    known = mmc_percentile_ms(percent, rate=320, service_rate=100, servers=4)
    assert np.percentile(run.latencies_ms, percent) == pytest.approx(known, rel=0.05)


def test_constant_work_waits_half_as_long_as_random_work() -> None:
    one = System(cores=1, workers=ANY_NUMBER, work=Work(call_ms=10, spread="constant"))
    waited_ms = simulate(one, rate_rps=80, seconds=200).latencies_ms.mean() - 10
    known_ms = 1000 * md1_wait_seconds(rate=80, service_seconds=0.01)
    assert waited_ms == pytest.approx(known_ms, rel=0.1)


def test_full_batches_are_served_at_their_own_rate() -> None:
    batching = SimulatedBatching(max_requests=8, timeout_ms=5)
    work = Work(call_ms=10, row_ms=1, spread="constant")
    system = System(cores=4, workers=ANY_NUMBER, batching=batching, work=work)
    assert simulate(system, users=64, seconds=20).throughput_rps == pytest.approx(8 / 0.018, 0.01)


def test_a_lonely_request_waits_for_the_batch_s_timeout() -> None:
    batching = SimulatedBatching(max_requests=8, timeout_ms=5)
    work = Work(call_ms=10, row_ms=1, spread="constant")
    system = System(cores=4, workers=ANY_NUMBER, batching=batching, work=work)
    assert simulate(system, rate_rps=1, seconds=200).latencies_ms.min() == pytest.approx(16)


def test_threads_beyond_the_cores_make_the_throughput_collapse() -> None:
    system = System(
        cores=4,
        workers=ANY_NUMBER,
        calls_at_once=ANY_NUMBER,
        switching_share=0.1,
        work=Work(call_ms=10),
    )
    known = 400 * system.efficiency(40)
    assert simulate(system, users=40, seconds=30).throughput_rps == pytest.approx(known, rel=0.05)


def test_workers_that_wait_bound_what_is_under_way() -> None:
    system = System(cores=8, workers=2, calls_at_once=8, work=Work(call_ms=10, spread="constant"))
    assert simulate(system, users=8, seconds=10).throughput_rps == pytest.approx(200, rel=0.01)


def test_workers_that_do_not_wait_take_more() -> None:
    work = Work(handler_ms=0.1, call_ms=10, spread="constant")
    system = System(cores=9, workers=1, workers_wait=False, calls_at_once=8, work=work)
    assert simulate(system, users=8, seconds=10).throughput_rps > 600


def test_what_does_not_fit_into_memory_is_refused() -> None:
    work = Work(call_ms=10, worker_mib=100, process_mib=500)
    with pytest.raises(MemoryError):
        simulate(System(cores=4, memory_mib=899, workers=4, work=work), users=1, seconds=1)


def test_the_same_seed_gives_the_same_run() -> None:
    once, again = (simulate(FOUR, users=6, seconds=2, seed=3) for _ in range(2))
    assert once.finished_at.tolist() == again.finished_at.tolist()


def test_the_highest_rate_of_a_known_queue_meets_its_objective() -> None:
    rate = mmc_highest_rate(99, 60, service_rate=100, servers=4)
    found = mmc_percentile_ms(99, rate=rate, service_rate=100, servers=4)
    assert found == pytest.approx(60, rel=1e-3)
