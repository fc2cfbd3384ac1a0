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
from typing import Any, Self

from pydantic import TypeAdapter

from servable.load.bodies import Body
from servable.load.load_target import Target
from servable.load.measurement import Loop, Step
from servable.load.pace import ONE, Crowd, Pace

Progress = Callable[[dict[str, Any]], None]
_STEP = TypeAdapter(Step)
__all__ = ["Crowd", "LoadError", "LoadGenerator", "Pace", "join"]

_LOCALHOST = "127.0.0.1"
_END_SECONDS = 5.0


class LoadError(Exception):
    """The load could not be sent. `str()` is a whole sentence: what failed, what to do."""


class LoadGenerator:
    def __init__(
        self,
        target: Target,
        bodies: Sequence[Body],
        *,
        loop: Loop,
        crowd: Crowd = ONE,
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
        self._head = self._started(*_role(crowd))
        try:
            if crowd.distributed:
                port = self._heard("port")
                joined_at(crowd.listen[0], port)
                for _ in range(crowd.processes):
                    address = _LOCALHOST if crowd.listen[0] == "*" else crowd.listen[0]
                    self._workers.append(self._started("worker", address, str(port)))
            self.aim(target, bodies, loop=loop)
        except BaseException:  # Ctrl-C while waiting leaves nothing either
            self.close()
            raise

    def aim(self, target: Target, bodies: Sequence[Body], *, loop: Loop) -> None:
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

    def step(self, load: float, pace: Pace, progress: Progress = lambda found: None) -> Step:
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

    def interrupted(self) -> Step | None:
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


def _role(crowd: Crowd) -> tuple[str, ...]:
    if not crowd.distributed:
        return ("alone",)
    host, port = crowd.listen
    return ("master", host, str(port), str(crowd.processes + crowd.elsewhere))
