"""Multi-model mode's loading and unloading, in the supervisor: model servers of one model each.

POST /models names a folder, and the code in it then runs with the rights of who serves. Every
user of the computer can send that request; so the folder must not be one of theirs.
"""

import asyncio
import itertools
import os
import signal
import socket
import stat
from pathlib import Path
from typing import Any

from servable_local.container import ports
from servable_local.container.child_process import ContainerStartError
from servable_local.container.loaded_models import LoadedModel, LoadedModels
from servable_local.container.model_servers import ModelServerProcesses
from servable_local.container.plan import EndpointPlan

# The numbers of model servers in multi-model mode; the others are numbered from 0.
_FIRST_NUMBER = 1000


class MultiModelMode:
    """Answers {"load": NAME, "url": FOLDER} and {"unload": NAME} with a status and a body."""

    def __init__(self, servers: ModelServerProcesses, endpoint_plan: EndpointPlan) -> None:
        self._servers = servers
        self._plan = endpoint_plan
        self._settings = endpoint_plan.settings
        self._registry = LoadedModels(endpoint_plan.folder)
        self._loaded: dict[str, LoadedModel] = {}
        self._numbers: dict[str, dict[int, list[socket.socket]]] = {}
        self._count = itertools.count(_FIRST_NUMBER)
        self._one_at_a_time = asyncio.Lock()

    async def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        async with self._one_at_a_time:
            if "load" in question:
                status, key, sentence = await self._load(question["load"], Path(question["url"]))
            else:
                status, key, sentence = self._unload(question["unload"])
        return {"status": status, "body": {key: sentence}}

    async def _load(self, name: str, folder: Path) -> tuple[int, str, str]:
        if name in self._loaded:
            return 409, "error", f"Model {name} is already loaded."
        try:
            folder = folder.resolve(strict=True)
            why_foreign, versions = foreign(folder), _versions(folder)
        except OSError:
            why_foreign, versions = None, {}
        if why_foreign is not None:
            return 403, "error", why_foreign
        if not versions:
            sentence = f"Could not find valid base path {folder} for servable {name}"
            return 404, "error", sentence
        pairs = []
        self._numbers[name] = {}
        try:
            for _ in range(self._settings.model_servers):
                number = next(self._count)
                low, kept = self._free_pair()
                self._numbers[name][number] = kept
                plan = self._plan.server_of({name: versions}, grpc_port=low, rest_port=low + 1)
                self._servers.add(number, plan)
                await self._servers.ready(number, wait_seconds=self._settings.load_wait_seconds)
                pairs.append((low, low + 1))
        except ports.PortError as error:
            self._end(name)
            return 507, "error", f"Memory exhausted: {error}"
        except TimeoutError:
            self._end(name)
            return 408, "error", f"Timed out after {self._settings.wait_seconds} seconds"
        except ContainerStartError as error:
            self._end(name)
            return 500, "error", str(error)
        self._loaded[name] = LoadedModel(name, folder, tuple(pairs))
        self._registry.write(self._loaded)
        rest, grpc = pairs[-1][1], pairs[-1][0]
        sentence = (
            f"Successfully loaded model {name}, listening on rest port {rest} and grpc port {grpc}."
        )
        return 200, "success", sentence

    def _unload(self, name: str) -> tuple[int, str, str]:
        if self._loaded.pop(name, None) is None:
            return 404, "error", f"Model {name} is not loaded yet"
        self._registry.write(self._loaded)
        self._end(name)
        return 200, "success", f"Successfully unloaded model {name}."

    def _end(self, name: str) -> None:
        for number, kept in self._numbers.pop(name, {}).items():
            pid = self._servers.remove(number)
            if pid is not None:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it was quicker
            for one in kept:
                one.close()

    def _free_pair(self) -> tuple[int, list[socket.socket]]:
        given = self._settings.port_range
        if given is None:
            return ports.reserved_range(2)
        # Nine tenths of the range, as the image takes of it.
        low, high = given[0], given[0] + int((given[1] - given[0]) * 0.9)
        for port in range(low, high - 1, 2):
            try:
                return port, ports.reserved_all([port, port + 1])
            except ports.PortError:
                continue
        raise ports.PortError("no available ports to load the model.")


def _versions(folder: Path) -> dict[int, Path]:
    if not folder.is_dir():
        return {}
    return {
        int(path.name): path
        for path in sorted(folder.iterdir())
        if path.name.isdecimal() and path.is_dir()
    }


def foreign(folder: Path) -> str | None:
    """Why another user may have written to `folder`, a sentence; None where no other user can.

    `folder` has no links in it: see `Path.resolve`. Raises `OSError`.
    """
    for path in (folder, *folder.parents):
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()):
            return (
                f"{path}: belongs to another user, whose code is not run; "
                "unpack the model into a folder of your own"
            )
        # In a sticky folder, as /tmp, nobody can replace what is another's.
        if status.st_mode & stat.S_IWOTH and not (path != folder and status.st_mode & stat.S_ISVTX):
            return f"{path}: every user can write to it; take that right away: chmod o-w {path}"
        if status.st_uid == os.geteuid() and not status.st_mode & stat.S_IXOTH:
            return None  # nobody else gets below it
    return None
