"""`make demo`, to its end, and interrupted at every step."""

import re
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.demo.marked_demo import Demo

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes are left"),
]
STEPS = [
    "A local AWS on this computer",
    "Deploy environments/local.toml",
    "Invoke the endpoint",
    "Compare the deployed resources",
    "Deploy again",
    "Override one setting",
    "Destroy everything",
]
DEMO, FROM_STEP = "scripts.demo", "tests.demo.from_step"


def test_the_demo_compares_answers_and_leaves_nothing() -> None:
    demo = Demo(DEMO)
    code = demo.read_to_the_end()
    said = "".join(demo.said)
    assert code == 0, said
    assert "local  as deployed" in said
    assert "CREATE_COMPLETE  AWS::SageMaker::Endpoint " in said
    assert "(no changes)" in said
    assert len(demo.said) <= 25, said
    programs = [line.split()[0] for line in demo.said[-3:]]
    assert programs == ["source", "eval", "cdk"]
    assert demo.left() == []


def test_the_demo_prints_stack_events_on_request(assembly: Path) -> None:
    demo = Demo(FROM_STEP, "Destroy everything", str(assembly), "-v")
    code = demo.read_to_the_end()
    said = "".join(demo.said)
    assert code == 0, said
    assert re.search("DELETE_COMPLETE +AWS::SageMaker::Model ", said)


@dataclass
class Interrupted:
    """One Ctrl-C: what ran when it came, and what was printed and left after it."""

    running: str
    code: int
    last_line: str
    left: list[str]


Interrupt = Callable[[str], Interrupted]


@pytest.fixture(scope="module")
def interrupted(assembly: Path) -> Interrupt:
    """`interrupted(step)`: the demo is begun once at each step."""

    @cache
    def once(step: str) -> Interrupted:
        demo = Demo(FROM_STEP, step, str(assembly))
        demo.read_until(step)
        time.sleep(0.7)  # into the step
        running = " ".join(demo.alive())
        demo.process.send_signal(signal.SIGINT)
        code = demo.read_to_the_end()
        return Interrupted(running, code, demo.said[-1], demo.left())

    return once


def test_an_interruption_says_so_and_exits_130(interrupted: Interrupt) -> None:
    # Without the mark of what the demo starts, the tests of interruptions would prove nothing.
    running = interrupted("Invoke the endpoint").running
    assert "servable_local.aws" in running
    assert "servable_local.container" in running
    for step in ["A local AWS on this computer", "Deploy environments/local.toml"]:
        ended = interrupted(step)
        assert ended.code == 130
        assert "interrupted" in ended.last_line


@pytest.mark.parametrize("step", STEPS)
def test_an_interruption_leaves_no_process(interrupted: Interrupt, step: str) -> None:
    assert interrupted(step).left == []
