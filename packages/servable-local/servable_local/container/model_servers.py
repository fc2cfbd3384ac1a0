"""The supervisor's model servers, and those for the models that multi-model mode loads.

One parent forks the model servers, which are restarted when they end. For Gunicorn's workers the
supervisor writes a file with the loaded models, and responds to requests on a socket; both are in
the endpoint's folder.
"""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from servable_local.container import ports
from servable_local.container.child_process import ChildProcess, ContainerStartError, log
from servable_local.container.plan import EndpointPlan, ServerPlan
from servable_local.protection import write_atomically


@dataclass(frozen=True)
class LoadedModel:
    """A model. `ports`: (gRPC, REST) of each model server. `ended`: the first of them has ended."""

    name: str
    folder: Path
    ports: Sequence[tuple[int, int]]
    ended: bool = False


class LoadedModels:
    """The file of loaded models, which each worker only reads again after a change."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._file = folder, folder / "models.json"
        self._seen = -1
        self._models: dict[str, LoadedModel] = {}

    def read_models(self) -> dict[str, LoadedModel]:
        """Return the loaded models by name."""
        try:
            now = self._file.stat().st_mtime_ns
        except FileNotFoundError:
            return {}
        if now != self._seen:
            self._seen = now
            self._models = {
                name: LoadedModel(**(model | {"folder": Path(model["folder"])}))
                for name, model in json.loads(self._file.read_text()).items()
            }
        return self._models

    def write(self, models: dict[str, LoadedModel]) -> None:
        entries = {name: asdict(model) for name, model in models.items()}
        write_atomically(self._file, json.dumps(entries, default=str))


CONTROL_SOCKET = "control.sock"


def call_supervisor(folder: Path, **question: Any) -> dict[str, Any]:
    """Send a JSON request, and return the JSON response. Raises `OSError` without a listener."""
    with socket.socket(socket.AF_UNIX) as connection:
        if sys.platform == "linux":
            # By a descriptor of the folder: a path of over 107 characters isn't a valid address.
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                connection.connect(f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
            finally:
                os.close(descriptor)
        else:  # at most 103 characters on macOS
            connection.connect(str(folder / CONTROL_SOCKET))
        connection.sendall(json.dumps(question).encode() + b"\n")
        with connection.makefile("rb") as lines:
            answer: dict[str, Any] = json.loads(lines.readline())
    return answer


_PAUSE_SECONDS = 0.2  # before a start again, so that one that cannot start does not spin


class ModelServerProcesses:
    """The numbered model servers; `add` and `remove` some while others serve."""

    def __init__(self, environment: Mapping[str, str], *, changed: Callable[[], None]) -> None:
        """Initialize. `changed` is called when processes have started or ended."""
        self._environment, self._changed = environment, changed
        self._plans: dict[int, ServerPlan] = {}
        self._once: set[int] = set()
        self._starting: dict[int, asyncio.Future[None]] = {}
        self.pids: dict[int, int] = {}
        """Number -> process, of those that are ready."""
        self._parent: ChildProcess | None = None
        self._imported = asyncio.Event()

    async def start_parent(self) -> None:
        """Start the parent, and return when TensorFlow is imported."""
        self._imported.clear()
        module = "servable_local.container.model_server"
        self._parent = ChildProcess(module, None, self._environment, self._apply_event)
        await self._imported.wait()

    @property
    def parent_pid(self) -> int | None:
        return self._parent.pid if self._parent else None

    def add(self, number: int, plan: ServerPlan, *, once: bool = False) -> None:
        """Start a model server; `wait_until_ready` waits. With `once` it isn't restarted."""
        self._plans[number] = plan
        if once:
            self._once.add(number)
        self._starting[number] = asyncio.get_running_loop().create_future()
        self._request_fork(number)

    async def wait_until_ready(self, number: int, *, wait_seconds: float) -> None:
        """Wait. Raises `ContainerStartError` for a failure, `TimeoutError` after `wait_seconds`."""
        async with asyncio.timeout(wait_seconds):
            await asyncio.shield(self._starting[number])

    def remove(self, number: int) -> int | None:
        """Stop restarting a model server. Return its process ID; the caller ends the process."""
        self._plans.pop(number, None)
        self._once.discard(number)
        self._starting.pop(number, None)
        return self.pids.pop(number, None)

    def end(self) -> None:
        """End the parent, and with it the model servers; nothing is restarted."""
        parent, self._parent = self._parent, None
        self._plans.clear()
        self.pids.clear()
        if parent is not None:
            parent.kill()

    def restart_if_parent(self, pid: int) -> bool:
        """Return True if `pid` was the parent, which is then restarted with its servers."""
        if self._parent is None or pid != self._parent.pid:
            return False
        self._parent.release()
        self.pids.clear()
        log(f"the model servers' parent process {pid} exited; restarting it")

        async def restart_servers() -> None:
            await self.start_parent()
            for number in self._plans:
                self._request_fork(number)

        asyncio.get_running_loop().create_task(restart_servers())
        return True

    def _request_fork(self, number: int) -> None:
        if self._parent is not None and number in self._plans:
            self._parent.send(start=number, plan=asdict(self._plans[number]))

    def _apply_event(self, event: dict[str, Any]) -> None:
        if "imported" in event:
            self._imported.set()
        elif "ready" in event:
            number = event["ready"]
            self.pids[number] = event["pid"]
            self._finish_start(number, None)
        elif "error" in event:
            log(event["error"])
            self._finish_start(event["number"], ContainerStartError(event["error"]))
        elif "ended" in event:
            number = event["ended"]
            if self.pids.get(number) == event["pid"]:
                del self.pids[number]
            # This changes nothing for a server that was ready.
            problem = ContainerStartError(f"a model server exited with status {event['status']}")
            self._finish_start(number, problem)
            if number in self._once:
                self._plans.pop(number, None)
                log(f"model server {number} exited unexpectedly: {event}; not restarting it")
            elif number in self._plans:
                log(f"model server {number} exited unexpectedly: {event}; restarting it")
                asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._request_fork, number)
        self._changed()

    def _finish_start(self, number: int, failure: ContainerStartError | None) -> None:
        starting = self._starting.get(number)
        if starting is None or starting.done():
            return
        if failure is None:
            starting.set_result(None)
        else:
            starting.set_exception(failure)


class MultiModelMode:
    """Handles {"load": NAME, "path": PATH, "versions": {NUMBER: PATH}} and {"unload": NAME}.

    A response is {"status": NUMBER, "body": TEXT}.
    """

    def __init__(self, servers: ModelServerProcesses, endpoint_plan: EndpointPlan) -> None:
        self._servers = servers
        self._plan = endpoint_plan
        self._settings = endpoint_plan.settings
        self._registry = LoadedModels(endpoint_plan.folder)
        self._loaded: dict[str, LoadedModel] = {}
        self._numbers: dict[str, dict[int, list[socket.socket]]] = {}
        self._count = itertools.count(1000)  # outside of this mode they are numbered from 0
        self._one_at_a_time = asyncio.Lock()

    def record_ended(self) -> None:
        """Record which models have ended, for the workers, after processes started or ended."""
        for name, model in self._loaded.items():
            ended = next(iter(self._numbers[name])) not in self._servers.pids
            if ended != model.ended:
                self._loaded[name] = replace(model, ended=ended)
                self._registry.write(self._loaded)

    async def respond(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._one_at_a_time:
            if "load" in question:
                folders = question["versions"].items()
                versions = {int(version): Path(folder) for version, folder in folders}
                model = Path(question["path"])
                status, body = await self._load_model(question["load"], model, versions)
            elif self._loaded.pop(name := question["unload"], None) is None:
                status, body = _format(404, error=f"Model {name} is not loaded yet")
            else:
                self._registry.write(self._loaded)
                self._end_servers(name)
                status, body = _format(200, success=f"Successfully unloaded model {name}.")
        return {"status": status, "body": body}

    async def _load_model(
        self, name: str, folder: Path, versions: dict[int, Path]
    ) -> tuple[int, str]:
        if name in self._loaded:
            return _format(409, error=f"Model {name} is already loaded.")
        pairs = []
        self._numbers[name] = {}
        try:
            if not versions:
                raise ContainerStartError(f"{folder} has no version at its top level, only deeper")
            for _ in range(self._settings.model_servers):
                number = next(self._count)
                grpc, self._numbers[name][number] = self._reserve_pair()
                plan = self._plan.plan_models_server({name: versions}, grpc)
                # As in the image, which restarts no such server.
                self._servers.add(number, plan, once=True)
                seconds = self._settings.load_wait_seconds
                await self._servers.wait_until_ready(number, wait_seconds=seconds)
                pairs.append((grpc, grpc + 1))
        except ports.PortError as error:
            status, body = _format(507, error=f"Memory exhausted: {error}")
        except (TimeoutError, ContainerStartError) as error:
            # The image waits for a model that can't be loaded as for a slow one; its response isn't JSON.
            status, body = 408, f"Timed out after {self._settings.wait_seconds} seconds"
            late = "the real image sends this response only after the full wait"
            if str(error):
                log(f"model {name}: {error}; {late}")
        else:
            self._loaded[name] = LoadedModel(name, folder, tuple(pairs))
            self._registry.write(self._loaded)
            listening = f"listening on rest port {grpc + 1} and grpc port {grpc}."
            return _format(200, success=f"Successfully loaded model {name}, {listening}")
        self._end_servers(name)
        return status, body

    def _end_servers(self, name: str) -> None:
        for number, kept in self._numbers.pop(name, {}).items():
            pid = self._servers.remove(number)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):  # it has already ended
                    os.kill(pid, signal.SIGKILL)
            for reservation in kept:
                reservation.close()

    def _reserve_pair(self) -> tuple[int, list[socket.socket]]:
        if self._settings.port_range is None:
            return ports.reserve_range(2)
        low, high = self._settings.port_range
        # Nine tenths of the range, as the image takes of it.
        for port in range(low, low + int((high - low) * 0.9) - 1, 2):
            try:
                return port, [ports.reserve_port(port), ports.reserve_port(port + 1)]
            except ports.PortError:
                continue
        raise ports.PortError("no available ports to load the model.")


def _format(status: int, **sentence: str) -> tuple[int, str]:
    return status, json.dumps(sentence)
