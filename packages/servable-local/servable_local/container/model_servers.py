"""The supervisor's model servers: forked by one parent, started again when they end."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from servable_local.container.child_process import ChildProcess, ContainerStartError, log
from servable_local.container.plan import ServerPlan

MODULE = "servable_local.container.model_server"
_PAUSE_SECONDS = 0.2  # before a start again, so that one that cannot start does not spin


class ModelServerProcesses:
    """Numbered model servers; `add` and `remove` while others serve."""

    def __init__(
        self, environment: Mapping[str, str], *, changed: Callable[[], None] = lambda: None
    ) -> None:
        """`changed` is called when processes have come or gone."""
        self._environment = environment
        self._changed = changed
        self._plans: dict[int, ServerPlan] = {}
        self._once: set[int] = set()
        self._starting: dict[int, asyncio.Future[None]] = {}
        self.pids: dict[int, int] = {}
        """Number -> process, of those that are ready."""
        self._parent: ChildProcess | None = None
        self._imported = asyncio.Event()

    async def begin(self) -> None:
        """Returns when TensorFlow is imported."""
        self._imported.clear()
        self._parent = ChildProcess(
            MODULE, [], environment=self._environment, on_event=self._on_event
        )
        await self._imported.wait()

    @property
    def parent_pid(self) -> int | None:
        return self._parent.pid if self._parent else None

    def add(self, number: int, plan: ServerPlan, *, once: bool = False) -> None:
        """Begins to start it; `ready` waits. With `once` it is not started again when it ends."""
        self._plans[number] = plan
        if once:
            self._once.add(number)
        self._starting[number] = asyncio.get_running_loop().create_future()
        self._fork(number)

    async def ready(self, number: int, *, wait_seconds: float) -> None:
        """Raises `ContainerStartError` when it fails, `TimeoutError` when it takes longer."""
        async with asyncio.timeout(wait_seconds):
            await asyncio.shield(self._starting[number])

    def remove(self, number: int) -> int | None:
        """Stop restarting a model server. Returns its process id; the caller ends the process."""
        self._plans.pop(number, None)
        self._once.discard(number)
        self._starting.pop(number, None)
        return self.pids.pop(number, None)

    def end(self) -> None:
        """End the parent, and with it the model servers; nothing is started again."""
        parent, self._parent = self._parent, None
        self._plans.clear()
        self.pids.clear()
        if parent is not None:
            parent.kill()

    def ended(self, pid: int) -> bool:
        """True if `pid` was the parent, which is then started again, with its model servers."""
        if self._parent is None or pid != self._parent.pid:
            return False
        self._parent.forget()
        self.pids.clear()
        log(f"the model servers' parent {pid} has ended; it is started again")

        async def restart() -> None:
            await self.begin()
            for number in self._plans:
                self._fork(number)

        asyncio.get_running_loop().create_task(restart())
        return True

    def _fork(self, number: int) -> None:
        if self._parent is not None and number in self._plans:
            self._parent.tell(start=number, plan=self._plans[number].as_json())

    def _on_event(self, event: dict[str, Any]) -> None:
        if "imported" in event:
            self._imported.set()
        elif "ready" in event:
            number = event["ready"]
            self.pids[number] = event["pid"]
            self._settle(number, None)
        elif "error" in event:
            log(event["error"])
            self._settle(event["number"], ContainerStartError(event["error"]))
        elif "ended" in event:
            number = event["ended"]
            if self.pids.get(number) == event["pid"]:
                del self.pids[number]
            # This changes nothing for a server that was ready.
            problem = ContainerStartError(f"a model server ended, status {event['status']}")
            self._settle(number, problem)
            if number in self._once:
                self._plans.pop(number, None)
                log(f"unexpected end of model server {number}, {event}; it stays away")
            elif number in self._plans:
                log(f"unexpected end of model server {number}, {event}; it is started again")
                asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._fork, number)
        self._changed()

    def _settle(self, number: int, failure: ContainerStartError | None) -> None:
        starting = self._starting.get(number)
        if starting is None or starting.done():
            return
        if failure is None:
            starting.set_result(None)
        else:
            starting.set_exception(failure)
