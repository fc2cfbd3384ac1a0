"""`servable load --gate`: passed at the traffic and the latency that the file expects, and only there."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from servable.load.command import load
from servable.load.gate import passed, verdict
from servable.load.latencies import Latencies
from servable.load.measurement import LoadCurve
from servable.load.objective import Objective
from servable.load.precision import Interval
from tests.conftest import VALID
from tests.servable.tune.measured import curve, step

OBJECTIVE = Objective(most_ms=100)


def sent(p50_ms: float = 10.0, answered_rps: float = 100.0, **told: Any) -> LoadCurve:
    """101 answers to requests of 10.1 a second."""
    rps = Interval(value=answered_rps, low=answered_rps, high=answered_rps)
    return curve(step(None, 0, p50_ms, **{"rate_rps": 10.0, "throughput_rps": rps} | told))


def test_traffic_that_is_borne_passes() -> None:
    assert passed(sent(), OBJECTIVE)


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (sent(p50_ms=90), "too slow"),
        (sent(errors={"500 Internal Server Error": 2}), "too many requests failed"),
        (sent(answered_rps=8.0), "answers fall behind what is sent"),
        (sent(p50_ms=90, send_lags=Latencies.of([60.0] * 101)), "the generator cannot keep up"),
        (sent(rate_rps=100.0), "only 101 of 1000 requests were sent: raise --processes"),
    ],
    ids=["slow", "failing", "behind", "slow and late", "hardly sent"],
)
def test_what_does_not_bear_it_says_why(found: LoadCurve, why: str) -> None:
    assert not passed(found, OBJECTIVE)
    assert why in verdict(found, OBJECTIVE)[0]


def test_lateness_that_is_within_the_objective_too_is_no_reason() -> None:
    assert passed(sent(send_lags=Latencies.of([6.0] * 101)), OBJECTIVE)


def test_nothing_measured_is_not_passed() -> None:
    assert not passed(curve(), OBJECTIVE)


def test_a_file_that_expects_nothing_is_told_which_keys_say_it(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(load, ["prod", "--gate"])
    assert ran.exit_code == 2
    assert "traffic.peak_rps in ENV's file" in ran.output
    assert "alarms.p99_latency_ms in ENV's file" in ran.output
