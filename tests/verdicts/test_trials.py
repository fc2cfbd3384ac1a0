"""The trials of verdicts that `make bench-verdicts` counts run, and know what is right."""

import numpy as np
import pytest

from tests.verdicts import load_gate, rehearse, replay_gate


def test_the_gate_of_replays_tells_a_planted_change_from_none() -> None:
    unchanged, _, planted, *_ = replay_gate.CASES
    assert replay_gate.run(unchanged, 0, seed=1) == "met"
    assert [replay_gate.run(planted, number, seed=1) for number in range(5)] == ["NOT met"] * 5


def test_the_gate_of_loads_never_passes_slow_requests_that_come_alone() -> None:
    chance = np.random.default_rng(0)
    several = {load_gate.run("alone", 0.02, 60.0, 50.0, False, chance) for _ in range(5)}
    assert "met" not in several


@pytest.mark.long
def test_a_day_is_rehearsed_and_simulated() -> None:
    """The first day of seed 1 has room for all its requests."""
    assert rehearse.judge_case((1, 0)) == (True, "holds")
