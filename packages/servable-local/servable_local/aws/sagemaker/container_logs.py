"""The containers' output in CloudWatch Logs, as SageMaker writes it.

Source: logging-cloudwatch.html of SageMaker's developer guide: the group is
/aws/sagemaker/Endpoints/ENDPOINT, and a stream is VARIANT/INSTANCE.
"""

import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servable_local.aws.sagemaker.container import Process

# Group, stream, lines, and whether to create a group that doesn't exist.
Write = Callable[[str, str, Sequence[str], bool], None]
_READ_BYTES = 1_000_000  # at once, of one file
_LONGEST_LINE_BYTES = 256 * 1024  # PutLogEvents' maximum event size


@dataclass(eq=False)
class _Output:
    """A file that one container writes, and how much of it is in its stream."""

    path: Path
    group: str
    stream: str
    offset: int = 0

    def read_lines(self, *, final: bool) -> list[str]:
        """Return the new complete lines; with `final`, the unfinished last one too."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                new = file.read(_READ_BYTES)
        except FileNotFoundError:
            return []
        end = new.rfind(b"\n") + 1
        if final or (not end and len(new) == _READ_BYTES):
            end = len(new)
        self.offset += end
        lines = new[:end].split(b"\n")
        pieces = (
            line[start : start + _LONGEST_LINE_BYTES]
            for line in lines
            for start in range(0, len(line), _LONGEST_LINE_BYTES)
        )
        return [piece.decode(errors="replace") for piece in pieces]


class ContainerLogs:
    """Follows the output of every container in one account and Region."""

    def __init__(self, folder: Path, write: Write) -> None:
        """`folder` takes the files, which stay."""
        self._folder = folder
        self._write = write
        self._outputs: list[_Output] = []
        self._lock = threading.Lock()

    def start(self, start: Callable[[Path], Process], group: str, variant: str) -> Process:
        """Return the process that `start` starts with a log file, whose lines go to a stream of its own."""
        instance = f"i-{secrets.token_hex(9)[1:]}"
        name = f"{group.rpartition('/')[2]}-{variant}-{instance}.log"
        output = _Output(self._folder / name, group, f"{variant}/{instance}")
        with self._lock:
            self._outputs.append(output)
        try:
            return _FollowedProcess(start(output.path), lambda: self._end(output, create=False))
        except BaseException:
            self._end(output, create=True)
            raise

    def forward(self) -> None:
        """Write what the containers have written since the last call."""
        with self._lock:
            for output in self._outputs:
                if lines := output.read_lines(final=False):
                    self._write(output.group, output.stream, lines, True)

    def _end(self, output: _Output, *, create: bool) -> None:
        """Write the rest. `create` is false at a container's end: its group may be deleted already."""
        with self._lock:
            if output not in self._outputs:
                return
            self._outputs.remove(output)
            while lines := output.read_lines(final=True):
                self._write(output.group, output.stream, lines, create)


class _FollowedProcess:
    """A container's process that says when it was closed; everything else is the process's."""

    def __init__(self, process: Process, closed: Callable[[], None]) -> None:
        self._process = process
        self._closed = closed

    @property
    def url(self) -> str:
        return self._process.url

    def close(self) -> None:
        self._process.close()
        self._closed()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._process, name)
