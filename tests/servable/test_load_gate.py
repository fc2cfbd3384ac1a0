"""`servable load --gate`: met at what the file expects, not met, or not to be told."""

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from servable.load import run as load_run
from servable.load.command import load
from servable.load.gate import (
    EventCount,
    Grouping,
    compute_step_seconds,
    evaluate_gate,
    evaluate_share,
    fill_in_traffic,
)
from servable.load.objective import Objective
from servable.load.options import LoadOptions
from servable.measured.measurement import LoadCurve
from servable.measured.precision import Interval, Latencies
from servable.verdict import EXIT_CODES
from tests.conftest import VALID, Environment, valid
from tests.servable.tune.measured import curve, step
from tests.servable.tune.queueing import SIMULATED
from tests.verdicts.load_gate import arrivals
from tests.verdicts.steady_queue import judge, measure, simulate, slow_seconds

OBJECTIVE = Objective(most_ms=100)
LATE: dict[str, Any] = {"send_lags": Latencies.from_milliseconds([60.0] * 101)}
SLOWLY = Interval(value=80.0, low=80.0, high=80.0)


def sent(slow: int = 0, answered: int = 1000, **fields: Any) -> LoadCurve:
    """Answers of 10 ms to 100 requests/s for 10 s, of which some took 200."""
    rps = Interval(value=100.0, low=100.0, high=100.0)
    latencies = Latencies.from_milliseconds([10.0] * (answered - slow) + [200.0] * slow)
    measured: dict[str, Any] = {"rate_rps": 100.0, "throughput_rps": rps, "latencies": latencies}
    return curve(step(None, 0, **(measured | fields)))


def test_traffic_that_is_borne_passes_and_one_rate_that_is_not_outweighs_others() -> None:
    assert evaluate_gate(sent(), OBJECTIVE).held == "met"
    a_little_late = sent(send_lags=Latencies.from_milliseconds([6.0] * 101))
    assert evaluate_gate(a_little_late, OBJECTIVE).held == "met"
    steps = (sent().steps[0], sent(slow=8).steps[0], sent(slow=30).steps[0])
    assert evaluate_gate(curve(*steps), OBJECTIVE).held == "NOT met"


def test_json_names_the_verdict_of_the_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = Mock(return_value=None)  # the report's pictures take a second
    monkeypatch.setattr(load_run, "write_load_report", write)
    for measured, gate, code, verdict in (
        (sent(), True, 0, "holds"),
        (sent(slow=30), True, 1, "does not hold"),
        (sent(answered=100), True, 3, "cannot be told"),
        (sent(slow=30), False, 0, "holds"),
        (replace(sent(), ended="failing"), False, 1, "does not hold"),
        (replace(sent(), ended="interrupted"), False, 130, "cannot be told"),
    ):
        options = Mock(gate=gate, as_json=True)
        assert load_run.report_result(measured, OBJECTIVE, tmp_path, options) == code
        said = json.loads(capsys.readouterr().out)
        assert (said["verdict"], bool(said["gate"])) == (verdict, gate)
        if gate:
            assert said["gate"]["held"] == (code == 0)
            assert said["gate"]["lines"][0].startswith(f"gate: {said['gate']['verdict']}")
        knee = write.call_args.args[2]  # in the report, too
        assert (knee and knee.rps.value) == (said["knee"] and said["knee"]["rps"]["value"])


def test_what_does_not_bear_it_or_cannot_be_told_says_why() -> None:
    cases: list[tuple[LoadCurve, int, str]] = [
        (sent(slow=30), 1, "too slow"),
        (sent(answered=970, errors={"500 Server Error": 30}), 1, "too many requests failed"),
        (sent(answered=0, errors={"500": 1000}), 1, "p99 unknown, at most 100; 100 % failed"),
        (sent(throughput_rps=SLOWLY), 1, "responses can't keep up with the requests"),
        (sent(slow=8), 3, "8 of 1,000 requests were slower; at that share"),
        (sent(slow=12), 3, "12 of 1,000 requests were slower, too close to the limit to decide"),
        (sent(answered=995, errors={"timeout": 5}), 3, "5 of 1,000 requests failed; at that share"),
        (sent(slow=30, **LATE), 3, "the generator can't keep up"),
        (sent(slow=12, **LATE), 3, "to decide; requests were sent "),
        (sent(answered=300), 3, "only 300 of 1000 requests were sent; raise --processes"),
        (curve(), 3, "nothing was measured"),
    ]
    for measured, code, why in cases:
        gate = evaluate_gate(measured, OBJECTIVE)
        assert (EXIT_CODES[gate.verdict], why in gate.lines[0]) == (code, True), gate.lines
        assert gate.lines[0].startswith("gate: NOT met") == (code == 1)


def test_459_requests_without_a_slow_one_show_a_p99_and_a_broken_one_hardly_passes() -> None:
    # 0.99 ** 459 = 0.00992, by hand; MLPerf's loadgen needs as many.
    assert (evaluate_share(0, 458, 0.01), evaluate_share(0, 459, 0.01)) == ("cannot be told", "met")

    chance = random.Random(600)
    slow = (sum(chance.random() < 0.011 for _ in range(600)) for _ in range(600))
    assert sum(evaluate_share(count, 600, 0.01) == "met" for count in slow) <= 6


@given(st.integers(1, 2000), st.integers(0, 60))
def test_one_slow_request_more_is_never_a_better_verdict(number: int, slow: int) -> None:
    order = ("met", "cannot be told", "NOT met")
    before, after = (evaluate_share(min(count, number), number, 0.01) for count in (slow, slow + 1))
    assert order.index(before) <= order.index(after)


def test_slow_requests_that_come_together_tell_less_than_independent_ones() -> None:
    # Of 3,000 requests in 30 s so many were slow in each half second.
    for blocks, held in (
        ([1, 0, 0, 0] * 15, "met"),
        ([0] * 20 + [8] + [0] * 20 + [7] + [0] * 18, "cannot be told"),
        ([0] * 20 + [60] + [0] * 39, "cannot be told"),
    ):
        tails = tuple(Latencies.from_milliseconds([200.0] * slow) for slow in blocks)
        measured = sent(slow=sum(blocks), answered=3000, seconds=30.0, tails=tails)
        assert evaluate_gate(measured, OBJECTIVE).held == held
    # 0.8 of 600: of none 459 would show it, and of one 662.
    assert EventCount(8, 6000, Grouping(10.0)).evaluate(0.01) == "cannot be told"
    independent = np.random.default_rng(3).poisson(2, 120).tolist()
    assert Grouping.from_counts(independent).compute_upper_bound() == 1


def test_what_is_within_1_percent_of_the_objective_counts_for_no_verdict() -> None:
    # Counts are by bins of 1 %; that of 100 ms reaches from 99.96 to 100.96.
    for took_ms in (100.0, 100.5):
        near = Latencies.from_milliseconds([10.0] * 900 + [took_ms] * 100)
        gate = evaluate_gate(sent(latencies=near), OBJECTIVE)
        assert gate.held == "cannot be told"
        assert "100 are within 1 % of the objective" in gate.lines[0]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=80))
def test_events_never_tell_more_than_as_many_independent_ones(counts: list[int]) -> None:
    assert Grouping.from_counts(counts).compute_upper_bound() >= 1


@pytest.mark.long
@pytest.mark.parametrize("utilization", [0.8, 0.9, 0.95])
def test_a_busy_queue_that_breaks_its_objective_is_never_met(utilization: float) -> None:
    # 1.75 % of the requests are slower than the objective, where 1 % may be; 45 a second for two minutes.
    limit, chance = slow_seconds(utilization, 0.0175) / 45, np.random.default_rng(62)
    runs = [simulate(utilization, 45.0, 120.0, chance) for _ in range(15)]
    held = [judge(due, took, 120.0, limit) for due, took in runs]
    assert held.count("met") == 0
    if utilization == 0.95:
        # The run contains too few queues, so the verdict says how long a run would tell.
        none_slow = next(run for run in runs if run[1].max() < limit)
        curve = LoadCurve(asked=SIMULATED, loop="open", steps=(measure(*none_slow, 120.0),))
        (line,) = evaluate_gate(curve, Objective(most_ms=1000 * limit)).lines
        independent = int(line.split("count as only ")[1].split()[0])
        assert independent < 459
        assert "minutes would suffice; pass --step-seconds" in line


@pytest.mark.long
def test_a_queue_that_keeps_its_objective_is_met_within_half_an_hour() -> None:
    limit, chance = slow_seconds(0.8, 0.002) / 45, np.random.default_rng(62)
    runs = (simulate(0.8, 45.0, 1800.0, chance) for _ in range(4))
    assert [judge(*run, 1800.0, limit) for run in runs].count("met") >= 2


def test_arrivals_in_bursts_do_not_count_as_slow_requests_that_come_together() -> None:
    chance = np.random.default_rng(3)
    due = arrivals(100.0, 120.0, True, chance)
    took = chance.exponential(0.01, len(due))
    measured = measure(due, took, 120.0)
    counts = [tail.count for tail in measured.tails]
    assert Grouping.from_counts(counts, measured.answered) == Grouping()
    # Without the number of answers they would.
    assert Grouping.from_counts(counts).size > 1


def test_a_step_lasts_as_long_as_a_verdict_needs_and_missing_keys_are_named(
    prod: Path, environment: Environment
) -> None:
    ran = CliRunner().invoke(load, ["prod", "--gate"])
    assert ran.exit_code == 2
    for key in ("traffic.peak_rps", "alarms.p99_latency_ms"):
        assert f"{key} in ENV's file" in ran.output
    loaded = environment(VALID + "[traffic]\npeak_rps = 10\n[alarms]\np99_latency_ms = 70\n")
    values: dict[str, Any] = dict.fromkeys(LoadOptions.__dataclass_fields__)
    options = LoadOptions(**(values | {"step_seconds": 30.0}))
    filled = fill_in_traffic(valid(loaded).environment, options)
    assert (filled.rates, filled.least_seconds, filled.step_seconds) == ((10,), 200, 200)
    assert compute_step_seconds(30.0, [10.0]) == 200
    assert compute_step_seconds(30.0, [100.0]) == 120
