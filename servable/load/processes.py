"""The processes that send the requests of a load test.

    with LoadGenerator(target, bodies, loop="closed") as generator:
        step = generator.run_step(4, Pace())

Locust patches the process that it runs in, so it runs in other processes; this one only sends and
reads messages.
"""

import dataclasses
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from servable.measured.measurement import Body, LoadStep, LoadTarget, Loop, Pace
from servable.measured.sending import SendingProcess, end_process

Progress = Callable[[dict[str, Any]], None]
_MODULE = [sys.executable, "-m", "servable.load.generator"]
LOCALHOST = "127.0.0.1"


class LoadGenerator(SendingProcess):
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
        self._workers: list[subprocess.Popen[bytes]] = []
        host, port = listen or (LOCALHOST, 0)
        alone = processes == 1 and listen is None
        command = _build_command("alone" if alone else "master", host, port, processes, locustfile)
        super().__init__(command, "the load generator's process", variables)
        try:
            if not alone:
                port = self._receive()
            if listen:
                on_listen(host, port)
            elif not alone:
                command = _build_command("worker", host, port, processes, locustfile)
                for _ in range(processes):
                    worker = subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=self._log,
                        env=variables,
                        process_group=0,
                    )
                    self._workers.append(worker)
            self.set_target(target, bodies, loop=loop)
        except BaseException:  # Ctrl-C while waiting leaves no process, either
            self.close()
            raise

    def set_target(self, target: LoadTarget, bodies: Sequence[Body], *, loop: Loop) -> None:
        """Send different requests from now on, with the same processes.

        Reusing the processes avoids starting new ones, which takes a second.
        """
        self._target, self._loop = target, loop
        sent = [dataclasses.asdict(body) for body in bodies]
        self._write({"plan": {"target": dataclasses.asdict(target), "bodies": sent, "loop": loop}})
        self._receive()

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
        self._write({"step": options})
        while not isinstance(received := self._receive(), LoadStep):
            progress(received)
        return received

    def close(self) -> None:
        """Stop the processes. Idempotent."""
        super().close()
        for worker in self._workers:
            end_process(worker)


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
        end_process(worker)
