"""Stand-in for the image's serve.py: starts the parts in order, and restarts those that end."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from servable_local.container.child_process import ChildProcess, ContainerStartError, log
from servable_local.container.faults import PARTS_FILE
from servable_local.container.model_servers import (
    CONTROL_SOCKET,
    ModelServerProcesses,
    MultiModelMode,
)
from servable_local.container.plan import EndpointPlan
from servable_local.private_files import write_beside

GUNICORN, NGINX = "servable_local.container.gunicorn", "servable_local.container.nginx"
_PAUSE_SECONDS = 0.2


class Supervisor:
    """The supervisor of one endpoint. `folder` is its working folder and that of its children."""

    def __init__(self, plan: EndpointPlan, *, environment: Mapping[str, str]) -> None:
        self._plan = plan
        self._environment = dict(environment) | plan.variables()
        self._children: dict[str, ChildProcess] = {}
        self._ready: dict[str, asyncio.Future[None]] = {}
        self._patience = asyncio.timeout(None)
        self._model_servers = ModelServerProcesses(self._environment, changed=self._note)
        self._multi_model = MultiModelMode(self._model_servers, plan)
        self.imported = 0.0
        """Time of TensorFlow's import, by the monotonic clock."""
        self.ending = False
        """Set when everything is about to end: nothing is started again."""

    async def start(self) -> int:
        """Returns the port when everything answers. Raises `ContainerStartError`."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        await asyncio.start_unix_server(self._control, CONTROL_SOCKET)
        await self._model_servers.begin()
        self.imported = time.monotonic()
        settings = self._plan.settings
        if not settings.multi_model:
            for number in range(settings.model_servers):
                self._model_servers.add(number, self._plan.server(number))
            await self._model_servers_ready()
        if self._plan.has_gunicorn:
            await self._child(GUNICORN)
        await self._child(NGINX)
        self._note()
        return self._plan.port

    async def _model_servers_ready(self) -> None:
        seconds = self._plan.settings.load_wait_seconds
        try:
            for number in range(self._plan.settings.model_servers):
                await self._model_servers.ready(number, wait_seconds=seconds)
        except TimeoutError:
            raise ContainerStartError(
                f"the model is not loaded after {seconds:.1f} s, which is how long the image waits "
                f"with SAGEMAKER_TFS_WAIT_TIME_SECONDS={self._plan.settings.wait_seconds}; give it more"
            ) from None

    async def _child(self, module: str) -> None:
        self._ready[module] = asyncio.get_running_loop().create_future()
        self._spawn(module)
        try:
            # Without an end until the code begins to load: our own imports are not its fault.
            async with asyncio.timeout(None) as self._patience:
                await self._ready[module]
        except TimeoutError:
            seconds = self._plan.settings.gunicorn_timeout_seconds
            raise ContainerStartError(
                f"Gunicorn did not start within {seconds} s, which is its own timeout "
                "(SAGEMAKER_GUNICORN_TIMEOUT_SECONDS) and the image's patience; "
                "import less in inference.py, or give it more"
            ) from None

    def _spawn(self, module: str) -> None:
        plan = self._plan.gunicorn() if module == GUNICORN else self._plan.nginx()

        def on_event(event: dict[str, Any]) -> None:
            ready = self._ready[module]
            if ready.done():  # a restart: nobody waits
                if "error" in event:
                    log(event["error"])
            elif "loading" in event:
                seconds = self._plan.settings.gunicorn_timeout_seconds
                self._patience.reschedule(asyncio.get_running_loop().time() + seconds)
            elif "error" in event:
                ready.set_exception(ContainerStartError(event["error"]))
            else:
                ready.set_result(None)
            self._note()

        arguments = ["--plan", json.dumps(plan)]
        self._children[module] = ChildProcess(
            module, arguments, environment=self._environment, on_event=on_event
        )

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if not self.ending and not self._model_servers.ended(pid):
                self._restart(pid, os.waitstatus_to_exitcode(status))
        self._note()

    def _restart(self, pid: int, status: int) -> None:
        for module in [name for name, child in self._children.items() if child.pid == pid]:
            self._children[module].forget()
            if not self._ready[module].done():
                problem = ContainerStartError(f"{module} ended with status {status}; see the log")
                self._ready[module].set_exception(problem)
            else:
                log(f"unexpected end of {module} {pid}, status {status}; it is started again")
                asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._spawn, module)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = json.loads(await reader.readline())
        answer = await self._multi_model.answer(question)
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        writer.close()

    def _note(self) -> None:
        """Which process plays which part, for tests and for fault injection."""
        self._multi_model.note_ended()
        pids = {
            "supervisor": os.getpid(),
            "launcher": self._model_servers.parent_pid,
            "model_servers": [pid for _, pid in sorted(self._model_servers.pids.items())],
        }
        for module, child in self._children.items():
            pids[module.rpartition(".")[2]] = child.pid
        write_beside(self._plan.folder / PARTS_FILE, json.dumps(pids))
