"""The stand-in for the image's serve.py: starts the parts in order, and restarts those that end."""

import asyncio
import contextlib
import itertools
import json
import os
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servable_local.container.child_process import (
    ChildProcess,
    ContainerStartError,
    log,
    reap_children,
)
from servable_local.container.faults import PARTS_FILE
from servable_local.container.model_servers import (
    CONTROL_SOCKET,
    ModelServerProcesses,
    MultiModelMode,
)
from servable_local.container.plan import EndpointPlan
from servable_local.protection import write_atomically

GUNICORN, NGINX = "servable_local.container.gunicorn", "servable_local.container.nginx"


@dataclass(frozen=True)
class Generation:
    """The processes behind NGINX: model servers, and Gunicorn if there is code."""

    plan: EndpointPlan
    environment: dict[str, str]
    model_servers: ModelServerProcesses
    models: Path
    """The folder that the model servers read, and that is removed with them."""
    code: Path
    """The folder that Gunicorn reads, and that is removed with it."""


class Supervisor:
    """The supervisor of one endpoint, whose folder is its children's working folder, too."""

    def __init__(self, plan: EndpointPlan, *, environment: Mapping[str, str], model: Path) -> None:
        """Initialize. `model`: the folder of the unpacked archive."""
        self._generations: dict[str, Generation] = {}
        self._current = self._add_generation(plan, environment, model)
        self._numbers = itertools.count(2)
        self._switched = asyncio.Event()
        self._children: dict[str, ChildProcess] = {}
        self._ready: dict[str, asyncio.Future[None]] = {}
        self._patience = asyncio.timeout(None)
        self._multi_model = MultiModelMode(self._current.model_servers, plan)
        self.ending = False
        """Set when everything is about to end: nothing is restarted."""

    @property
    def plan(self) -> EndpointPlan:
        """Return the plan that new requests follow."""
        return self._current.plan

    async def start(self) -> int:
        """Start all parts; return the port when they respond. Raises `ContainerStartError`."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap_children)
        await asyncio.start_unix_server(self._serve_control, CONTROL_SOCKET)
        await self._start_model_servers(self._current)
        if self.plan.has_gunicorn:
            await self._start_child(self.plan.socket)
        await self._start_child(NGINX)
        self._record_parts()
        return self.plan.port

    async def replace(
        self, plan: EndpointPlan, environment: Mapping[str, str], model: Path
    ) -> None:
        """Serve `plan` from new processes, then end the old; they go on after a `ContainerStartError`."""
        plan.socket = f"gunicorn-{next(self._numbers)}.sock"
        await self._switch_to(self._add_generation(plan, environment, model))

    async def replace_code(self, plan: EndpointPlan, model: Path) -> None:
        """Do what `replace` does, with the same model servers. `model`: the folder with code/."""
        plan.socket = f"gunicorn-{next(self._numbers)}.sock"
        old = self._current
        for path in old.models.iterdir():
            if path.name != "code":
                (model / path.name).symlink_to(path)
        new = Generation(plan, old.environment, old.model_servers, old.models, model)
        self._generations[plan.socket] = new
        await self._switch_to(new)

    def _add_generation(
        self, plan: EndpointPlan, environment: Mapping[str, str], model: Path
    ) -> Generation:
        variables = dict(environment) | plan.build_variables()
        servers = ModelServerProcesses(variables, changed=self._record_parts)
        self._generations[plan.socket] = new = Generation(plan, variables, servers, model, model)
        return new

    async def _switch_to(self, new: Generation) -> None:
        try:
            if new.model_servers is not self._current.model_servers:
                await self._start_model_servers(new)
            if new.plan.has_gunicorn:
                await self._start_child(new.plan.socket)
        except BaseException:
            self._end_generation(new)
            raise
        self._current = new
        self._switched.clear()
        with contextlib.suppress(OSError, ValueError):  # it is being restarted with this plan
            self._children[NGINX].send(**new.plan.build_nginx_plan())
        await self._switched.wait()

    def _end_generation(self, old: Generation) -> None:
        """End the processes of `old` that no other generation uses, and remove their files."""
        del self._generations[old.plan.socket]
        if gunicorn := self._children.pop(old.plan.socket, None):
            gunicorn.kill()
        left = self._generations.values()
        if not any(each.model_servers is old.model_servers for each in left):
            old.model_servers.end()
            old.plan.free_ports()
            shutil.rmtree(old.models, ignore_errors=True)
        if old.code != old.models:
            shutil.rmtree(old.code, ignore_errors=True)
        self._record_parts()

    async def _start_model_servers(self, generation: Generation) -> None:
        await generation.model_servers.start_parent()
        settings = generation.plan.settings
        if settings.multi_model:
            return
        for number in range(settings.model_servers):
            generation.model_servers.add(number, generation.plan.plan_server(number))
        seconds = settings.load_wait_seconds
        try:
            for number in range(settings.model_servers):
                await generation.model_servers.wait_until_ready(number, wait_seconds=seconds)
        except TimeoutError:
            raise ContainerStartError(
                f"the model didn't load within {seconds:.1f} s, the time that the image waits "
                f"with SAGEMAKER_TFS_WAIT_TIME_SECONDS={settings.wait_seconds}; increase it"
            ) from None

    async def _start_child(self, name: str) -> None:
        """Start NGINX, or the Gunicorn of this socket."""
        self._ready[name] = asyncio.get_running_loop().create_future()
        self._spawn(name)
        try:
            # Without an end until the code begins to load: our own imports are not its fault.
            async with asyncio.timeout(None) as self._patience:
                await self._ready[name]
        except TimeoutError:
            seconds = self._generations[name].plan.settings.gunicorn_timeout_seconds
            raise ContainerStartError(
                f"Gunicorn didn't start within {seconds} s, its timeout in the image "
                "(SAGEMAKER_GUNICORN_TIMEOUT_SECONDS); "
                "import less in inference.py, or increase the timeout"
            ) from None

    def _spawn(self, name: str) -> None:
        generation = self._current if name == NGINX else self._generations.get(name)
        if generation is None:
            return  # it was replaced while it waited for its new start
        plan = generation.plan
        if name == NGINX:
            module, own_plan = NGINX, plan.build_nginx_plan()
        else:
            module, own_plan = GUNICORN, plan.build_gunicorn_plan()

        def apply_event(event: dict[str, Any]) -> None:
            ready = self._ready[name]
            if "serves" in event:
                self._end_unused(event["serves"], event["in_use"])
            if ready.done():  # a restart, for which no caller waits
                if "error" in event:
                    log(event["error"])
            elif "loading" in event:
                seconds = plan.settings.gunicorn_timeout_seconds
                self._patience.reschedule(asyncio.get_running_loop().time() + seconds)
            elif "error" in event:
                ready.set_exception(ContainerStartError(event["error"]))
            else:
                ready.set_result(None)
            self._record_parts()

        self._children[name] = ChildProcess(module, own_plan, generation.environment, apply_event)

    def _end_unused(self, serves: str, in_use: list[str]) -> None:
        """End what NGINX, which sends new requests to `serves`, no longer needs."""
        if serves != self.plan.socket:
            return  # a switch is under way
        self._switched.set()
        older = itertools.takewhile(lambda name: name != serves, list(self._generations))
        for name in older:
            if name not in in_use:
                self._end_generation(self._generations[name])

    def _reap_children(self) -> None:
        for pid, status in reap_children():
            servers = {each.model_servers for each in self._generations.values()}
            if not self.ending and not any(each.restart_if_parent(pid) for each in servers):
                self._restart_child(pid, status)
        self._record_parts()

    def _restart_child(self, pid: int, status: int) -> None:
        for name, child in [each for each in self._children.items() if each[1].pid == pid]:
            child.release()
            ready = self._ready[name]
            if not ready.done():
                problem = f"{child.module} exited with status {status}; see the log"
                ready.set_exception(ContainerStartError(problem))
            elif ready.exception() is None:
                what = f"{child.module} (process {pid}) exited unexpectedly with status {status}"
                log(f"{what}; restarting it")
                asyncio.get_running_loop().call_later(0.2, self._spawn, name)

    async def _serve_control(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        answer = await self._multi_model.respond(json.loads(await reader.readline()))
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        writer.close()

    def _record_parts(self) -> None:
        """Record which process plays which part, for tests and for fault injection."""
        self._multi_model.record_ended()
        servers = self._current.model_servers
        pids: dict[str, Any] = {
            "supervisor": os.getpid(),
            "launcher": servers.parent_pid,
            "model_servers": [pid for _, pid in sorted(servers.pids.items())],
        }
        for part, name in (("gunicorn", self.plan.socket), ("nginx", NGINX)):
            if name in self._children:
                pids[part] = self._children[name].pid
        write_atomically(self.plan.folder / PARTS_FILE, json.dumps(pids))
