"""`make demo`, to its end, and interrupted at every step."""

import signal
import sys
import time

import pytest

from tests.demo.marked_demo import Demo

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes are left"),
]
STEPS = [
    "A local AWS on this computer",
    "Bootstrap its account",
    "Deploy environments/local.toml",
    "What exists now",
    "Ask the endpoint",
    "Deploy again",
    "Change one parameter",
    "Destroy everything",
]
DEMO = "scripts.demo"


def test_the_demo_shows_predictions_and_leaves_nothing() -> None:
    demo = Demo(DEMO)
    code = demo.read_to_the_end()
    said = "".join(demo.said)
    assert code == 0, said
    assert "equal to TensorFlow's own answer" in said
    assert demo.left() == []


def test_everything_the_demo_starts_carries_the_mark() -> None:
    """Else the tests of interruptions would prove nothing."""
    demo = Demo(DEMO)
    demo.read_until("Ask the endpoint")
    alive = " ".join(demo.alive())
    demo.process.send_signal(signal.SIGINT)
    demo.read_to_the_end()
    assert "servable_local.aws" in alive
    assert "servable_local.container" in alive


@pytest.mark.parametrize("step", STEPS)
def test_an_interruption_leaves_no_process(step: str) -> None:
    demo = Demo(DEMO)
    demo.read_until(step)
    time.sleep(0.7)  # into the step
    demo.process.send_signal(signal.SIGINT)
    demo.read_to_the_end()
    assert demo.left() == []


@pytest.mark.parametrize("step", ["Bootstrap its account", "Deploy environments/local.toml"])
def test_an_interruption_says_so_and_exits_130(step: str) -> None:
    demo = Demo(DEMO)
    demo.read_until(step)
    time.sleep(0.7)
    demo.process.send_signal(signal.SIGINT)
    assert demo.read_to_the_end() == 130
    assert "interrupted" in demo.said[-1]
