"""The instances of one variant: which serve, which start or end, and which container stands for each.

An instance beyond `most_containers` is counted, starts and ends, and has no container of its own: those
that are there play it too. The first container stays also where no instance is left.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from servable_local.aws.sagemaker.container import Container

_DRAIN_SECONDS = 60.0
_DRAIN_LOOK_SECONDS = 0.02
# AWS's words for it, as users report them.
_NO_CAPACITY = (
    "Unable to provision requested ML compute capacity due to InsufficientInstanceCapacity error."
)


@dataclass
class InstanceFaults:
    """What an endpoint's instances do on request."""

    start_seconds: float = 0.0
    """How long a new one takes to serve, on the clock; at least until its container answers."""
    capacity: int | None = None
    """The most that can be had; the others fail when they should be ready."""


@dataclass(eq=False)
class _Starting:
    ready: datetime
    container: "Future[Container] | None"
    lacking: bool


@dataclass(eq=False)
class VariantInstances:
    """Counts and containers. Not for several threads at once, but for `pick`: an endpoint's lock holds it."""

    containers: list[Container]
    desired: int
    start: Callable[[], Container]
    most_containers: int = 1
    least_outstanding: bool = False
    faults: InstanceFaults = field(default_factory=InstanceFaults)
    failure: str | None = None
    """Why the last change of the count was not fulfilled; until the next change."""
    serving: int = field(init=False)
    _starting: list[_Starting] = field(default_factory=list)
    _turn: int = 0

    def __post_init__(self) -> None:
        self.serving = self.desired

    @property
    def changing(self) -> bool:
        return bool(self._starting)

    def pick(self) -> Container:
        """By the routing strategy; for RANDOM in turns, which give the same shares."""
        containers = list(self.containers)
        if self.least_outstanding:
            return min(containers, key=lambda one: one.busy)
        self._turn += 1
        return containers[self._turn % len(containers)]

    def scale(self, desired: int, now: datetime) -> None:
        """Starts or ends instances; returns at once."""
        self.failure = None
        more = desired - self.serving - len(self._starting)
        self.desired = desired
        for _ in range(more):
            number = self.serving + len(self._starting) + 1
            lacking = self.faults.capacity is not None and number > self.faults.capacity
            own = number <= self.most_containers and number > len(self.containers) and not lacking
            ready = now + timedelta(seconds=self.faults.start_seconds)
            self._starting.append(_Starting(ready, _launched(self.start) if own else None, lacking))
        for _ in range(-more):
            if self._starting:
                _drop(self._starting.pop())
            else:
                self.serving -= 1
        self._end_surplus()

    def retain(self, desired: int) -> None:
        """So many from the beginning, as an update takes the count over; waits for their containers."""
        self.desired = self.serving = desired
        while len(self.containers) < min(desired, self.most_containers):
            self.containers.append(self.start())
        self._end_surplus()

    def tick(self, now: datetime, *, wait: bool) -> bool:
        """Whether the last instance that started is there, or is known not to come.

        `wait`: for a container that should be ready and is not: on a clock that stands still.
        """
        if not self._starting:
            return False
        for one in list(self._starting):
            if one.ready > now or (one.container and not wait and not one.container.done()):
                continue
            self._starting.remove(one)
            self._arrive(one)
        if self._starting:
            return False
        if self.failure is not None:
            self.desired = self.serving
        return True

    def _arrive(self, one: _Starting) -> None:
        if one.lacking:
            self.failure = _NO_CAPACITY
            return
        if one.container is not None:
            try:
                self.containers.append(one.container.result())
            except Exception as error:
                self.failure = str(error) or type(error).__name__
                return
        self.serving += 1

    def _end_surplus(self) -> None:
        """Those that leave get no request any more, and end when their last is answered."""
        while len(self.containers) > max(1, min(self.serving, self.most_containers)):
            leaving = self.containers.pop()
            threading.Thread(target=_end, args=(leaving,), name="scale in", daemon=True).start()

    def close(self) -> None:
        """Ends every container. Idempotent."""
        for one in self._starting:
            _drop(one)
        self._starting.clear()
        for container in self.containers:
            container.close()


def _launched(start: Callable[[], Container]) -> "Future[Container]":
    found: Future[Container] = Future()

    def run() -> None:
        try:
            found.set_result(start())
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, name="start an instance", daemon=True).start()
    return found


def _drop(one: _Starting) -> None:
    if one.container is not None:
        one.container.add_done_callback(_closed)


def _end(container: Container) -> None:
    deadline = time.monotonic() + _DRAIN_SECONDS
    while container.busy and time.monotonic() < deadline:
        time.sleep(_DRAIN_LOOK_SECONDS)
    container.close()


def _closed(done: "Future[Container]") -> None:
    if done.exception() is None:
        done.result().close()
