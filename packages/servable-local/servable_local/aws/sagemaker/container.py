"""A running container, which is restarted when it exits, and its output in CloudWatch Logs.

Source: logging-cloudwatch.html of SageMaker's developer guide: the group is
/aws/sagemaker/Endpoints/ENDPOINT, and a stream is VARIANT/INSTANCE.
"""

import http.client
import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlparse

# Group, stream, lines, and whether to create a group that doesn't exist.
Write = Callable[[str, str, Sequence[str], bool], None]
_READ_BYTES = 1_000_000  # at once, of one file
_LONGEST_LINE_BYTES = 256 * 1024  # PutLogEvents' maximum event size
Answered = tuple[int, http.client.HTTPMessage, bytes]
NO_CONTAINER = (
    "This endpoint has no container: the local AWS was started with --containers 0, the default "
    "without TensorFlow. To run containers, install 'servable-local[run]'."
)


class VariantStartError(Exception):
    """A variant can't serve. `str()` is the endpoint's FailureReason."""


class Process(Protocol):
    """A container that serves."""

    @property
    def url(self) -> str: ...

    def close(self) -> None: ...


class NoProcess:
    """A stand-in for the process of an endpoint without containers; its URL is empty."""

    url = ""

    def close(self) -> None:
        pass


# Starts a container, and returns when /ping responds: (archive, or None in multi-model mode;
# variables; ready_timeout_seconds=60; log=None). The text of its exception is the reason.
Launch = Callable[..., Process]


def launch_local_container(
    archive: Path | None, variables: Mapping[str, str], **options: Any
) -> Process:
    """Start a local container, imported here so that the server runs without TensorFlow."""
    try:
        from servable_local.container.launch import LaunchError, launch
    except ModuleNotFoundError as missing:
        raise VariantStartError(
            f"the local container needs {missing.name}, which is not installed here: "
            "pip install 'servable-local[run]'"
        ) from None

    try:
        return cast(Process, launch(archive, variables, **options))
    except LaunchError as error:
        raise VariantStartError(str(error)) from None


class Container:
    """A container. `launch` returns when it responds; its first exception is passed on."""

    def __init__(self, launch: Callable[[], Process]) -> None:
        self._launch = launch
        self._process = launch()
        self._closed = False
        self._healing = False
        self._lock = threading.Lock()
        self.busy = 0
        """Requests in progress."""

    @property
    def url(self) -> str:
        return self._process.url

    @property
    def pid(self) -> int | None:
        """Return the process ID, or None for a stand-in of the tests, which has no process."""
        return getattr(self._process, "pid", None)

    @property
    def folder(self) -> Path | None:
        """Return the folder of the container's unpacked files, or None."""
        return getattr(self._process, "folder", None)

    @property
    def faults(self) -> Any:
        """Return the container's fault injection. Raises ValueError if it has none."""
        faults = getattr(self._process, "faults", None)
        if faults is None:
            raise ValueError("this container does not support fault injection")
        return faults

    def get(self, path: str, *, timeout_seconds: float) -> Answered:
        """Send a GET request, with the results and errors of `post`."""
        return self.post(path, None, {}, timeout_seconds=timeout_seconds)

    def post(
        self, path: str, body: bytes | None, headers: Mapping[str, str], *, timeout_seconds: float
    ) -> Answered:
        """Send a POST request, or without a body a GET request. Return status, headers, and body.

        Raises OSError or HTTPException.
        """
        if not self.url:
            return HTTPStatus.SERVICE_UNAVAILABLE, http.client.HTTPMessage(), NO_CONTAINER.encode()
        where = urlparse(self.url)
        connection = http.client.HTTPConnection(
            where.hostname or "127.0.0.1", where.port, timeout=timeout_seconds
        )
        with self._lock:
            self.busy += 1
        try:
            method = "GET" if body is None else "POST"
            connection.request(method, path, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()
            with self._lock:
                self.busy -= 1

    def restart_if_ended(self) -> None:
        """Restart the process in the background if it has ended."""
        with self._lock:
            if self._closed or self._healing or not _has_ended(self.pid):
                return
            self._healing = True
        threading.Thread(target=self._restart, name="replace a container", daemon=True).start()

    def close(self) -> None:
        """End the process. Idempotent."""
        with self._lock:
            self._closed = True
        self._process.close()

    def _restart(self) -> None:
        self._process.close()
        try:
            started = self._launch()
        except Exception as error:  # the next tick tries again
            print(f"a container could not be restarted: {error}", file=sys.stderr)
            with self._lock:
                self._healing = False
            return
        with self._lock:
            self._process, self._healing = started, False
            closed = self._closed
        if closed:
            started.close()


def _has_ended(pid: int | None) -> bool:
    """Return whether a child process has ended; its owner still has to wait for it."""
    if pid is None:
        return False
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


@dataclass(eq=False)
class _Output:
    """A log file of one container, and how much of it is already in its log stream."""

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
        return [
            line[start : start + _LONGEST_LINE_BYTES].decode(errors="replace")
            for line in new[:end].split(b"\n")
            for start in range(0, len(line), _LONGEST_LINE_BYTES)
        ]


class ContainerLogs:
    """The output of the containers in one account and Region, forwarded to log streams."""

    def __init__(self, folder: Path, write: Write) -> None:
        """Initialize without containers. The log files in `folder` are kept."""
        self._folder = folder
        self._write = write
        self._outputs: list[_Output] = []
        self._lock = threading.Lock()

    def start_process(self, start: Callable[[Path], Process], group: str, variant: str) -> Process:
        """Return the process that `start` starts with a log file, forwarded to a separate stream."""
        instance = f"i-{secrets.token_hex(9)[1:]}"
        name = f"{group.rpartition('/')[2]}-{variant}-{instance}.log"
        output = _Output(self._folder / name, group, f"{variant}/{instance}")
        with self._lock:
            self._outputs.append(output)
        finish = partial(self._finish_output, output, create=False)
        try:
            return _FollowedProcess(start(output.path), finish)
        except BaseException:
            self._finish_output(output, create=True)
            raise

    def forward(self) -> None:
        """Forward the output of the containers since the last call."""
        with self._lock:
            for output in self._outputs:
                if lines := output.read_lines(final=False):
                    self._write(output.group, output.stream, lines, True)

    def _finish_output(self, output: _Output, *, create: bool) -> None:
        """Forward the rest. `create` is false after a normal end: the group may be deleted."""
        with self._lock:
            if output not in self._outputs:
                return
            self._outputs.remove(output)
            while lines := output.read_lines(final=True):
                self._write(output.group, output.stream, lines, create)


class _FollowedProcess:
    """A process that reports its closing, and otherwise delegates to the container's process."""

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
