"""What serve.py is in the image: starts the parts in their order, and starts again what ends."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from local.endpoint import control, ports
from local.endpoint.child import Child
from local.endpoint.failure import StartError
from local.endpoint.gateway import SOCKET
from local.endpoint.layout import Code
from local.endpoint.model_server.plan import ServerPlan
from local.endpoint.model_servers import ModelServers
from local.endpoint.multi_model import MultiModel
from local.endpoint.settings import Settings
from local.endpoint.trouble import NAME as TROUBLE

GATEWAY, FRONT = "local.endpoint.gateway", "local.endpoint.front"
PROCESSES = "processes.json"
_PAUSE_SECONDS = 0.2


class Supervisor:
    """Of one endpoint. Its working folder is `folder`, and its children's too."""

    def __init__(
        self,
        settings: Settings,
        *,
        folder: Path,
        models: dict[str, dict[int, Path]],
        default_model: str,
        code: Code | None,
        environment: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._models = models
        self._default_model = default_model
        self._code = code
        self._gunicorn = code is not None or settings.multi_model
        self._kept: list[socket.socket] = []
        self._low = self._reserve()
        self._front_port = self._keep(settings.port)
        self._environment = dict(environment) | self._own_variables()
        self._children: dict[str, Child] = {}
        self.ending = False
        """Set when everything is about to end: nothing is started again."""
        self._ready: dict[str, asyncio.Future[None]] = {}
        self.model_servers = ModelServers(self._environment)
        self._multi_model = MultiModel(self.model_servers, folder, self._plan, settings)

    async def start(self) -> int:
        """Returns the port when everything answers. Raises `StartError`."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGCHLD, self._reap)
        await asyncio.start_unix_server(self._control, control.SOCKET)
        await self.model_servers.begin()
        if not self._settings.multi_model:
            count = range(self._settings.model_servers)
            for number in count:
                low = self._low + 2 * number
                plan = self._plan(self._models, grpc_port=low, rest_port=low + 1)
                self.model_servers.add(number, plan)
            for number in count:
                await self._model_server(number)
        if self._gunicorn:
            seconds = float(self._settings.gunicorn_timeout_seconds)
            await self._child(GATEWAY, self._gateway_plan(), wait_seconds=seconds)
        await self._child(FRONT, self._front_plan())
        self._note()
        return self._front_port

    async def _model_server(self, number: int) -> None:
        seconds = self._settings.load_wait_seconds
        try:
            await self.model_servers.ready(number, wait_seconds=seconds)
        except TimeoutError:
            raise StartError(
                f"the model is not loaded after {seconds:.1f} s, which is how long the image waits "
                f"with SAGEMAKER_TFS_WAIT_TIME_SECONDS={self._settings.wait_seconds}; give it more"
            ) from None

    async def _child(
        self, module: str, plan: dict[str, Any], *, wait_seconds: float | None = None
    ) -> None:
        self._ready[module] = asyncio.get_running_loop().create_future()
        self._spawn(module, plan)
        try:
            async with asyncio.timeout(wait_seconds):
                await self._ready[module]
        except TimeoutError:
            raise StartError(
                f"Gunicorn did not start within {wait_seconds:g} s, which is its own timeout "
                "(SAGEMAKER_GUNICORN_TIMEOUT_SECONDS) and the image's patience; "
                "import less in inference.py, or give it more"
            ) from None

    def _spawn(self, module: str, plan: dict[str, Any]) -> None:
        def heard(event: dict[str, Any]) -> None:
            ready = self._ready[module]
            if ready.done():
                if "error" in event:
                    _log(event["error"])
            elif "error" in event:
                ready.set_exception(StartError(event["error"]))
            else:
                ready.set_result(None)
            self._note()

        self._children[module] = Child(
            module, ["--plan", json.dumps(plan)], environment=self._environment, heard=heard
        )

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._ended(pid, os.waitstatus_to_exitcode(status))
        self._note()

    def _ended(self, pid: int, status: int) -> None:
        if self.ending or self.model_servers.ended(pid):
            return
        for module, child in self._children.items():
            if child.pid != pid:
                continue
            child.forget()
            ready = self._ready[module]
            if not ready.done():
                ready.set_exception(StartError(f"{module} ended with status {status}; see the log"))
                return
            _log(f"unexpected end of {module} {pid}, status {status}; it is started again")
            plan = self._gateway_plan() if module == GATEWAY else self._front_plan()
            asyncio.get_running_loop().call_later(_PAUSE_SECONDS, self._spawn, module, plan)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = json.loads(await reader.readline())
        answer = await self._multi_model.answer(question)
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()
        writer.close()

    def _note(self) -> None:
        """Which process plays which part, for tests and for trouble on request."""
        found = {
            "supervisor": os.getpid(),
            "model_servers_parent": self.model_servers.parent_pid,
            "model_servers": [pid for _, pid in sorted(self.model_servers.pids.items())],
        }
        for module, child in self._children.items():
            found[module.rpartition(".")[2]] = child.pid
        beside = self._folder / f"{PROCESSES}.new"
        beside.write_text(json.dumps(found))
        beside.replace(self._folder / PROCESSES)

    def _plan(
        self, models: dict[str, dict[int, Path]], *, grpc_port: int, rest_port: int
    ) -> ServerPlan:
        return ServerPlan(
            models=models,
            grpc_port=grpc_port,
            rest_port=rest_port,
            inter_op_threads=self._settings.inter_op_threads,
            intra_op_threads=self._settings.intra_op_threads,
            batching=self._settings.batching,
            trouble=self._folder / TROUBLE,
        )

    def _gateway_plan(self) -> dict[str, Any]:
        code, settings = self._code, self._settings
        inference = code.inference if code else None
        return {
            "code": str(code.folder) if code else None,
            "inference": str(inference) if inference else None,
            "multi_model": settings.multi_model,
            "timeout_seconds": float(settings.wait_seconds),
            "gunicorn": {
                "workers": settings.workers,
                "threads": settings.threads,
                "worker_class": settings.worker_class,
                "timeout": settings.gunicorn_timeout_seconds,
                "loglevel": settings.gunicorn_log_level,
            },
        }

    def _front_plan(self) -> dict[str, Any]:
        return {
            "port": self._front_port,
            "gunicorn": SOCKET if self._gunicorn else None,
            "rest_ports": [] if self._settings.multi_model else self._ports()[1],
            "default_model": self._default_model,
            "multi_model": self._settings.multi_model,
            "read_timeout_seconds": float(self._settings.read_timeout_seconds),
        }

    def _own_variables(self) -> dict[str, str]:
        """What the start script adds for Gunicorn."""
        settings = self._settings
        grpc, rest = self._ports()
        low, high = settings.port_range or (self._low, self._low + 2 * settings.model_servers + 1)
        return {
            "TFS_GRPC_PORTS": ",".join(map(str, grpc)),
            "TFS_REST_PORTS": ",".join(map(str, rest)),
            "TFS_DEFAULT_MODEL_NAME": self._default_model,
            "SAGEMAKER_SAFE_PORT_RANGE": f"{low}-{high}",
            "SAGEMAKER_MULTI_MODEL": str(settings.multi_model),
            "SAGEMAKER_TFS_WAIT_TIME_SECONDS": str(settings.wait_seconds),
            "SAGEMAKER_TFS_INSTANCE_COUNT": str(settings.model_servers),
            "SAGEMAKER_TFS_INTER_OP_PARALLELISM": str(settings.inter_op_threads),
            "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": str(settings.intra_op_threads),
        }

    def _ports(self) -> tuple[list[int], list[int]]:
        numbers = range(self._settings.model_servers)
        return [self._low + 2 * n for n in numbers], [self._low + 2 * n + 1 for n in numbers]

    def _reserve(self) -> int:
        count = 2 * self._settings.model_servers
        if self._settings.port_range is None:
            # SageMaker names a range; without one the image takes 9000 and 8501, or fails.
            low, kept = ports.reserved_range(count)
        else:
            low = self._settings.port_range[0]
            kept = ports.reserved_all(range(low, low + count))
        self._kept += kept
        return low

    def _keep(self, port: int) -> int:
        kept = ports.reserved(port)
        self._kept.append(kept)
        return int(kept.getsockname()[1])


def _log(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
