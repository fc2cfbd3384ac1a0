"""The generator's processes, as a program that wants load sees them.

    with LoadGenerator(target, bodies, loop="closed") as generator:
        step = generator.step(8, Pace())

Locust patches the process that it is in, so it is in others; this one only tells and listens.
"""

import base64
import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter

from servable.load.load_target import Body, LoadTarget
from servable.load.measurement import LoadStep, Loop
from servable.load.pace import Pace

Progress = Callable[[dict[str, Any]], None]
_STEP = TypeAdapter(LoadStep)

LOCALHOST = "127.0.0.1"
_END_SECONDS = 5.0


class LoadError(Exception):
    """The load could not be sent. `str()` is a whole sentence: what failed, what to do."""


@dataclass(frozen=True, kw_only=True)
class GeneratorProcesses:
    """How many send. One sends some thousands of requests per second, from one core."""

    here: int = 1
    """On this machine."""
    elsewhere: int = 0
    """On other machines, each started by `servable load --join HOST:PORT`."""
    listen: tuple[str, int] = (LOCALHOST, 0)
    """Where they join: unencrypted, for a private network. Port 0: any."""

    @property
    def distributed(self) -> bool:
        return self.here + self.elsewhere > 1 or self.elsewhere > 0


ONE = GeneratorProcesses()
"""Here."""


class LoadGenerator:
    def __init__(
        self,
        target: LoadTarget,
        bodies: Sequence[Body],
        *,
        loop: Loop,
        processes: GeneratorProcesses = ONE,
        variables: Mapping[str, str] | None = None,
        seed: int = 0,
        joined_at: Callable[[str, int], None] = lambda host, port: None,
    ) -> None:
        """`variables`: the processes' environment; left out, this one's. Raises LoadError.

        `joined_at` is told where other machines join.
        """
        self._seed = seed
        self._variables = None if variables is None else dict(variables)
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  (close() closes it)
        self._workers: list[subprocess.Popen[bytes]] = []
        self._head = self._started(*_role(processes))
        try:
            if processes.distributed:
                port = self._heard("port")
                joined_at(processes.listen[0], port)
                for _ in range(processes.here):
                    address = LOCALHOST if processes.listen[0] == "*" else processes.listen[0]
                    self._workers.append(self._started("worker", address, str(port)))
            self.aim(target, bodies, loop=loop)
        except BaseException:  # Ctrl-C while waiting leaves nothing either
            self.close()
            raise

    def aim(self, target: LoadTarget, bodies: Sequence[Body], *, loop: Loop) -> None:
        """The same processes ask something else from now on: they take a second to start."""
        self._target, self._loop = target, loop
        sent = [
            dataclasses.asdict(one) | {"content": base64.b64encode(one.content).decode()}
            for one in bodies
        ]
        self._tell(
            plan={
                "target": dataclasses.asdict(target),
                "bodies": sent,
                "loop": loop,
                "seed": self._seed,
            }
        )
        self._heard("ready")

    def step(self, load: float, pace: Pace, progress: Progress = lambda found: None) -> LoadStep:
        """`load`: users, or requests per second. Raises LoadError, KeyboardInterrupt.

        After KeyboardInterrupt `interrupted()` gives what was measured until then.
        """
        told: dict[str, Any] = dataclasses.asdict(pace) | {
            "users": round(load) if self._loop == "closed" else None,
            "rate_rps": load if self._loop == "open" else None,
            "timeout_seconds": self._target.timeout_seconds,
        }
        self._tell(step=told)
        return _STEP.validate_python(self._heard("done", progress))

    def interrupted(self) -> LoadStep | None:
        """Ends the step that runs, if one does; what the last one has found."""
        self._tell(stop=True)
        found = self._heard("stopped")
        return None if found is None else _STEP.validate_python(found)

    def close(self) -> None:
        """Ends the processes. Again is nothing."""
        for one in (self._head, *self._workers):
            for pipe in (one.stdin, one.stdout):
                if pipe:
                    try:
                        pipe.close()
                    except OSError:
                        pass  # it ended first
            try:
                one.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                one.kill()
                one.wait()
        self._words.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def _started(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", "servable.load.generator", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if arguments[0] != "worker" else subprocess.DEVNULL,
            stderr=self._words,
            env=self._variables,
        )

    def _tell(self, **what: Any) -> None:
        assert self._head.stdin is not None  # asked for as a pipe
        try:
            self._head.stdin.write(json.dumps(what).encode() + b"\n")
            self._head.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _heard(self, wanted: str, progress: Progress = lambda found: None) -> Any:
        assert self._head.stdout is not None  # asked for as a pipe
        for line in iter(self._head.stdout.readline, b""):
            try:
                said = json.loads(line)
            except ValueError:
                continue  # the rest of a line over which this process was interrupted
            if "error" in said:
                raise LoadError(said["error"])
            if wanted in said:
                return said[wanted]
            if "progress" in said:
                progress(said["progress"])
        raise self._ended()

    def _ended(self) -> LoadError:
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").splitlines()[-10:]
        said = "\n".join(["", *lines]) if lines else ""
        return LoadError(f"the load generator's process has ended.{said}")


def join(host: str, port: int) -> None:
    """Be a sending process of a test on another machine, until that ends. KeyboardInterrupt ends it."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "servable.load.generator", "worker", host, str(port)],
        stdin=subprocess.PIPE,
    )
    try:
        worker.wait()
    finally:
        assert worker.stdin is not None  # asked for as a pipe
        worker.stdin.close()
        worker.wait()


def _role(processes: GeneratorProcesses) -> tuple[str, ...]:
    if not processes.distributed:
        return ("alone",)
    host, port = processes.listen
    return ("master", host, str(port), str(processes.here + processes.elsewhere))
