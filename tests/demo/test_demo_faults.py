"""`make demo-faults`: what it finds, how long it takes, and interrupted."""

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from scripts.fault_demonstration import SLOW_MS
from tests.demo.marked_demo import Demo

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes are left"),
    pytest.mark.timeout(300),
]
DEMO = "scripts.demo_faults"
LONGEST_SECONDS = 180


@pytest.fixture(scope="module")
def finished() -> tuple[dict[str, Any], float, list[str]]:
    """What it printed, the seconds it took, and the processes it left."""
    demo, began = Demo(DEMO, "--json"), time.monotonic()
    out, said = demo.process.communicate(timeout=290)
    took = time.monotonic() - began
    assert demo.process.returncode == 0, said
    return json.loads(out), took, demo.left()


def test_it_takes_at_most_three_minutes(finished: tuple[Any, float, Any]) -> None:
    assert finished[1] <= LONGEST_SECONDS


def test_it_leaves_no_process(finished: tuple[Any, Any, list[str]]) -> None:
    assert finished[2] == []


def test_every_trouble_set_off_its_alarm_and_recovered(
    finished: tuple[dict[str, Any], Any, Any],
) -> None:
    assert [(one["trouble"], one["alarm"]) for one in finished[0]["troubles"]] == [
        ("slowed", "ModelLatency"),
        ("killed", "Invocation5XXErrors"),
        ("answering 503", "Invocation5XXErrors"),
    ]


def test_callers_saw_the_model_fail(finished: tuple[dict[str, Any], Any, Any]) -> None:
    seen = {kind for minute in finished[0]["minutes"] for kind in minute["errors"]}
    assert "ModelError 503" in seen


def test_callers_saw_the_model_slow(finished: tuple[dict[str, Any], Any, Any]) -> None:
    # The median is of a minute that may have begun before it was slowed.
    slowest = max(minute["p99_ms"] or 0 for minute in finished[0]["minutes"])
    assert slowest > SLOW_MS


@pytest.mark.parametrize("step", ["Deploy environments/local.toml", "Slowed", "Killed"])
def test_an_interruption_leaves_no_process_and_exits_130(step: str, assembly: Path) -> None:
    demo = Demo("tests.demo.from_step", DEMO, step, str(assembly))
    demo.read_until(step)
    time.sleep(0.7)  # into the step
    demo.process.send_signal(signal.SIGINT)
    code = demo.read_to_the_end()
    assert (code, demo.left()) == (130, [])
