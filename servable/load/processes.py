"""The processes that send the requests of a load test.

    with LoadGenerator(target, bodies, loop="closed") as generator:
        step = generator.run_step(4, Pace())

Locust patches the process that it runs in, so it runs in other processes; this one only sends and
reads messages.
"""

import base64
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from servable.measured.measurement import Body, LoadError, LoadStep, LoadTarget, Loop, Pace

Progress = Callable[[dict[str, Any]], None]
_STEP = TypeAdapter(LoadStep)
_MODULE = [sys.executable, "-m", "servable.load.generator"]
LOCALHOST = "127.0.0.1"
_END_SECONDS = 5.0


class LoadGenerator(AbstractContextManager["LoadGenerator"]):
    def __init__(
        self,
        target: LoadTarget,
        bodies: Sequence[Body],
        *,
        loop: Loop,
        processes: int = 1,
        listen: tuple[str, int] | None = None,
        locustfile: Path | None = None,
        variables: Mapping[str, str] | None = None,
        on_listen: Callable[[str, int], None] = lambda host, port: None,
    ) -> None:
        """Start the processes, each of which sends some thousands of requests per second.

        Raises LoadError.

        `listen`: address where processes join with `servable load --join`; None: start the
        processes here. The connection is unencrypted, so use a private network. Port 0 selects
        any free port, and `on_listen` is called with the address.

        `locustfile`: file with the user classes; None: users that send `bodies`.

        `variables`: environment of the processes; None: that of this process.
        """
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (close() closes it)
        self._workers: list[subprocess.Popen[bytes]] = []
        host, port = listen or (LOCALHOST, 0)

        def start(role: str) -> "subprocess.Popen[bytes]":
            return subprocess.Popen(
                _build_command(role, host, port, processes, locustfile),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if role != "worker" else subprocess.DEVNULL,
                stderr=self._log,
                env=variables,
                process_group=0,  # Ctrl-C goes to this process, which ends the others
            )

        alone = processes == 1 and listen is None
        self._head = start("alone" if alone else "master")
        try:
            if not alone:
                port = self._read("port")
            if listen:
                on_listen(host, port)
            elif not alone:
                for _ in range(processes):
                    self._workers.append(start("worker"))
            self.set_target(target, bodies, loop=loop)
        except BaseException:  # Ctrl-C while waiting leaves no process, either
            self.close()
            raise

    def set_target(self, target: LoadTarget, bodies: Sequence[Body], *, loop: Loop) -> None:
        """Send different requests from now on, with the same processes.

        Reusing the processes avoids starting new ones, which takes a second.
        """
        self._target, self._loop = target, loop
        sent = [
            dataclasses.asdict(body) | {"content": base64.b64encode(body.content).decode()}
            for body in bodies
        ]
        self._write(plan={"target": dataclasses.asdict(target), "bodies": sent, "loop": loop})
        self._read("ready")

    def run_step(
        self, load: float, pace: Pace, progress: Progress = lambda found: None
    ) -> LoadStep:
        """Run one load step and return its measurements. Raises LoadError.

        `load`: number of users in a closed loop, requests per second in an open loop.
        """
        options: dict[str, Any] = dataclasses.asdict(pace) | {
            "users": round(load) if self._loop == "closed" else None,
            "rate_rps": load if self._loop == "open" else None,
            "timeout_seconds": self._target.timeout_seconds,
        }
        self._write(step=options)
        return _STEP.validate_python(self._read("done", progress))

    def close(self) -> None:
        """Stop the processes. Idempotent."""
        for process in (self._head, *self._workers):
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    with suppress(OSError):  # the process ended first
                        pipe.close()
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _write(self, **message: Any) -> None:
        assert self._head.stdin is not None  # a pipe
        try:
            self._head.stdin.write(json.dumps(message).encode() + b"\n")
            self._head.stdin.flush()
        except BrokenPipeError:
            raise self._build_end_error() from None

    def _read(self, wanted: str, progress: Progress = lambda found: None) -> Any:
        assert self._head.stdout is not None  # a pipe
        for line in self._head.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue  # printed by a locustfile, or cut off by Ctrl-C
            if "error" in message:
                raise LoadError(message["error"])
            if wanted in message:
                return message[wanted]
            if "progress" in message:
                progress(message["progress"])
        raise self._build_end_error()

    def _build_end_error(self) -> LoadError:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").splitlines()[-10:]
        return LoadError("\n".join(["the load generator's process has ended.", *lines]))


def _build_command(role: str, host: str, port: int, processes: int, file: Path | None) -> list[str]:
    command = [*_MODULE, role, host, str(port), str(processes)]
    return command if file is None else [*command, str(file.resolve())]


def join_load_test(host: str, port: int, locustfile: Path | None = None) -> None:
    """Send requests for a load test that runs on another computer.

    Returns when the process ends. Raises KeyboardInterrupt.
    """
    command = _build_command("worker", host, port, 1, locustfile)
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)
    try:
        worker.wait()
    finally:
        assert worker.stdin is not None  # a pipe
        worker.stdin.close()  # ends the process
        worker.wait()
