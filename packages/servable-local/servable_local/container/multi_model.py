"""Multi-model mode's loading and unloading, in the supervisor: model servers of one model each."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from servable_local.container import ports
from servable_local.container.child_process import ContainerStartError, log
from servable_local.container.loaded_models import LoadedModel, LoadedModels
from servable_local.container.model_servers import ModelServerProcesses
from servable_local.container.plan import EndpointPlan

# The numbers of model servers in multi-model mode; the others are numbered from 0.
_FIRST_NUMBER = 1000


class MultiModelMode:
    """Answers {"load": NAME, "path": PATH, "versions": {NUMBER: PATH}} and {"unload": NAME}.

    An answer is {"status": NUMBER, "body": TEXT}.
    """

    def __init__(self, servers: ModelServerProcesses, endpoint_plan: EndpointPlan) -> None:
        self._servers = servers
        self._plan = endpoint_plan
        self._settings = endpoint_plan.settings
        self._registry = LoadedModels(endpoint_plan.folder)
        self._loaded: dict[str, LoadedModel] = {}
        self._numbers: dict[str, dict[int, list[socket.socket]]] = {}
        self._count = itertools.count(_FIRST_NUMBER)
        self._one_at_a_time = asyncio.Lock()

    def note_ended(self) -> None:
        """Record which models have ended, for the workers, after processes started or ended."""
        for name, model in self._loaded.items():
            ended = next(iter(self._numbers[name])) not in self._servers.pids
            if ended != model.ended:
                self._loaded[name] = replace(model, ended=ended)
                self._registry.write(self._loaded)

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._one_at_a_time:
            if "load" in question:
                folders = question["versions"].items()
                versions = {int(version): Path(folder) for version, folder in folders}
                model = Path(question["path"])
                status, body = await self._load(question["load"], model, versions)
            elif self._loaded.pop(name := question["unload"], None) is None:
                status, body = _error(404, f"Model {name} is not loaded yet")
            else:
                self._registry.write(self._loaded)
                self._end(name)
                status, body = _success(f"Successfully unloaded model {name}.")
        return {"status": status, "body": body}

    async def _load(self, name: str, folder: Path, versions: dict[int, Path]) -> tuple[int, str]:
        if name in self._loaded:
            return _error(409, f"Model {name} is already loaded.")
        pairs = []
        self._numbers[name] = {}
        try:
            if not versions:
                raise ContainerStartError(f"{folder} has no version itself, only further down")
            for _ in range(self._settings.model_servers):
                number = next(self._count)
                grpc, self._numbers[name][number] = self._free_pair()
                plan = self._plan.server_of({name: versions}, grpc_port=grpc, rest_port=grpc + 1)
                # As in the image, which starts none of these again.
                self._servers.add(number, plan, once=True)
                await self._servers.ready(number, wait_seconds=self._settings.load_wait_seconds)
                pairs.append((grpc, grpc + 1))
        except ports.PortError as error:
            status, body = _error(507, f"Memory exhausted: {error}")
        except (TimeoutError, ContainerStartError) as error:
            # The image waits for a model that cannot be loaded as for a slow one, and answers no JSON.
            status, body = 408, f"Timed out after {self._settings.wait_seconds} seconds"
            if str(error):
                log(f"model {name}: {error}; the image answers this after the wait, not at once")
        else:
            self._loaded[name] = LoadedModel(name, folder, tuple(pairs))
            self._registry.write(self._loaded)
            listening = f"listening on rest port {grpc + 1} and grpc port {grpc}."
            return _success(f"Successfully loaded model {name}, {listening}")
        self._end(name)
        return status, body

    def _end(self, name: str) -> None:
        for number, kept in self._numbers.pop(name, {}).items():
            pid = self._servers.remove(number)
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):  # it was quicker
                    os.kill(pid, signal.SIGKILL)
            for reservation in kept:
                reservation.close()

    def _free_pair(self) -> tuple[int, list[socket.socket]]:
        if self._settings.port_range is None:
            return ports.reserved_range(2)
        low, high = self._settings.port_range
        # Nine tenths of the range, as the image takes of it.
        for port in range(low, low + int((high - low) * 0.9) - 1, 2):
            try:
                return port, [ports.reserved(port), ports.reserved(port + 1)]
            except ports.PortError:
                continue
        raise ports.PortError("no available ports to load the model.")


def _error(status: int, sentence: str) -> tuple[int, str]:
    return status, json.dumps({"error": sentence})


def _success(sentence: str) -> tuple[int, str]:
    return 200, json.dumps({"success": sentence})
