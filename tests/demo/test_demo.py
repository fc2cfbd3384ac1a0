"""`make demo`, to its end, and interrupted at every step."""

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from scripts import demo
from tests.checkouts import PATH, ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which processes are left"),
]
STEPS = ["A local AWS on this computer", *(step.title for step in demo.STEPS)]


class Demo:
    """The process of a demonstration, and all that it starts: children inherit its mark."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.mark = f"MARK_OF_A_TEST={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        own = {"PATH": PATH, "PYTHONUNBUFFERED": "1", name: value}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], cwd=ROOT, env=os.environ | own,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.said: list[str] = []

    def read_until(self, start: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith(start):
                return
        pytest.fail(f"the demo ended before {start!r}:\n{''.join(self.said)}")

    def read_to_the_end(self) -> int:
        assert self.process.stdout is not None
        self.said += list(self.process.stdout)
        return self.process.wait()

    def left(self) -> list[str]:
        """Command lines of the processes it leaves, once they had time to end."""
        deadline = time.monotonic() + 15.0
        while (found := self.alive()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def alive(self) -> list[str]:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # gone, or not ours to read
        return found


def test_the_demo_compares_answers_and_leaves_nothing() -> None:
    own = Demo("scripts.demo")
    code = own.read_to_the_end()
    said = "".join(own.said)
    assert code == 0, said
    assert "local  as deployed" in said
    assert "CREATE_COMPLETE  AWS::SageMaker::Endpoint " in said
    assert "(no changes)" in said
    assert len(own.said) <= 25, said
    assert [line.split()[0] for line in own.said[-3:]] == ["source", "eval", "cdk"]
    assert own.left() == []


def test_the_demo_prints_stack_events_on_request(assembly: Path) -> None:
    own = Demo("tests.demo.from_step", "Destroy everything", str(assembly), "-v")
    code = own.read_to_the_end()
    said = "".join(own.said)
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
        own = Demo("tests.demo.from_step", step, str(assembly))
        own.read_until(step)
        time.sleep(0.7)  # into the step
        running = " ".join(own.alive())
        own.process.send_signal(signal.SIGINT)
        code = own.read_to_the_end()
        return Interrupted(running, code, own.said[-1], own.left())

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
