"""A demonstration that runs, and everything it started: children inherit the mark."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.checkouts import PATH, ROOT

END_SECONDS = 15.0


class Demo:
    """The process of one module of scripts/, and all that it starts."""

    def __init__(self, module: str, *arguments: str) -> None:
        self.mark = f"MARK_OF_A_TEST={uuid.uuid4()}"
        name, _, value = self.mark.partition("=")
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "PATH": PATH, "PYTHONUNBUFFERED": "1", name: value},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
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
        deadline = time.monotonic() + END_SECONDS
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
