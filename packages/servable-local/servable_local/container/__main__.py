"""The endpoint's supervisor: `python -m servable_local.container`, only started by launch.py.

Standard output carries one JSON line: {"port": 12345} when the endpoint responds, or
{"error": "..."}. The end of standard input means that the parent and this process end.
"""

import argparse
import asyncio
import contextlib
import copy
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import psutil

from servable_local.container.child_process import (
    ContainerStartError,
    Events,
    adopt_orphans,
    call_at_end,
    log,
    reap_children,
)
from servable_local.container.compiled_packages import provide_compiled_packages
from servable_local.container.faults import FILE as FAULTS
from servable_local.container.faults import RELOAD, FaultFile
from servable_local.container.image_code import find_image_code
from servable_local.container.plan import EndpointPlan, Models
from servable_local.container.ports import PortError
from servable_local.container.recording import Recording
from servable_local.container.settings import (
    DEFAULT_MODEL_NAME,
    KEYS,
    WORKERS,
    SettingsError,
    list_unused_variables,
    read_settings,
)
from servable_local.container.supervisor import Supervisor
from servable_tensors.archive import (
    ArchiveCode,
    ArchiveError,
    LayoutError,
    find_code,
    find_models,
    unpack,
)

_START_ERRORS = (ContainerStartError, ArchiveError, LayoutError, SettingsError, PortError)
# What `requests`, NGINX's configuration and the model server leave as it is.
_ADDRESSABLE = r"[A-Za-z0-9._~!&()*+,;=@-]+"


@dataclass
class EndpointTermination:
    """The end of the endpoint: kills its processes, removes its files, exits this process."""

    folder: Path
    supervisor: Supervisor | None = None

    def __call__(self) -> NoReturn:
        # Running handlers are killed, too.
        if self.supervisor is not None:
            self.supervisor.ending = True
        deadline = time.monotonic() + 3.0
        while psutil.Process().children() and time.monotonic() < deadline:
            for child in psutil.Process().children(recursive=True):
                with contextlib.suppress(psutil.Error):  # it has already ended
                    child.kill()
            for _ in reap_children():
                pass
            time.sleep(0.01)
        shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--archive", type=Path)
    arguments.add_argument("--folder", type=Path, required=True)
    arguments.add_argument("--parent-pid", type=int, required=True)
    arguments.add_argument("--memory-limit-mib", type=int)
    arguments.add_argument("--record", type=lambda text: Recording(*json.loads(text)))
    options = arguments.parse_args()
    # What the container and its code write is for the owner alone; processes inherit it.
    os.umask(0o077)
    events = Events()
    adopt_orphans()
    end = EndpointTermination(options.folder)
    call_at_end(end, parent_pid=options.parent_pid)
    asyncio.run(_serve(options, events, end))


async def _serve(options: argparse.Namespace, events: Events, end: EndpointTermination) -> None:
    began = time.monotonic()
    try:
        model = options.folder / "model"
        plan = _plan_endpoint(options, options.archive, os.environ, model, events)
        end.supervisor = supervisor = Supervisor(plan, environment=os.environ, model=model)
        port = await supervisor.start()
    except _START_ERRORS as error:
        events.report(error=str(error))
        end()
    log(f"ready in {time.monotonic() - began:.2f} s")
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(
        signal.SIGUSR1, lambda: loop.create_task(_reload(options, events, supervisor))
    )
    events.report(port=port)
    if options.memory_limit_mib:
        await _enforce_memory_limit(options.memory_limit_mib)
    await asyncio.Event().wait()


async def _reload(options: argparse.Namespace, events: Events, supervisor: Supervisor) -> None:
    """Serve what the file RELOAD contains; report when new requests go there, or why not."""
    request: dict[str, Any] = json.loads((options.folder / RELOAD).read_text())
    model = Path(request["model"])
    try:
        async with asyncio.timeout(request["timeout_seconds"]):
            if request["archive"]:
                archive, environment = Path(request["archive"]), request["environment"]
                plan = await asyncio.to_thread(
                    _plan_endpoint, options, archive, environment, model, events, supervisor.plan
                )
                await supervisor.replace(plan, environment, model)
            else:
                code = await asyncio.to_thread(_prepare_code, model)
                plan = copy.copy(supervisor.plan)
                plan.code = code
                await supervisor.replace_code(plan, model)
    except (TimeoutError, *_START_ERRORS) as error:
        shutil.rmtree(model, ignore_errors=True)
        late = f"the new processes were not ready after {request['timeout_seconds']:g} s"
        events.report(error=str(error) or late)
    else:
        events.report(port=supervisor.plan.port)


def _plan_endpoint(
    options: argparse.Namespace,
    archive: Path | None,
    environment: Mapping[str, str],
    model: Path,
    events: Events,
    front: EndpointPlan | None = None,
) -> EndpointPlan:
    """Unpack the archive into `model`, and return the plan for serving it."""
    model.mkdir()
    if front is None:
        FaultFile.create(options.folder / FAULTS)
    models: Models = {}
    default_model, code = "None", None
    if archive is not None:
        unpack(archive, model, progress=lambda read, size: events.report(unpacked=read, of=size))
        code = _prepare_code(model)
    settings = read_settings(environment, gunicorn=code is not None)
    if not settings.multi_model:
        rewritten = find_image_code(settings.tensorflow).rewritten
        models = find_models(model, takes_zero=rewritten)
        name = settings.default_model
        default_model = next(iter(models)) if name is None else name
        if default_model not in models:
            raise ContainerStartError(
                f"{DEFAULT_MODEL_NAME}={default_model}: the archive contains {', '.join(models)}; "
                "a model is named after the folder of its versions, or `model` at the root"
            )
        if not re.fullmatch(_ADDRESSABLE, default_model):
            raise ContainerStartError(
                f"the folder {default_model!r}: the image would wait forever at an address with this "
                "name; use only letters, digits, '.', '_', and '-'"
            )
    has_gunicorn = code is not None or settings.multi_model
    if settings.workers == 0 and has_gunicorn:
        raise SettingsError(
            f"{WORKERS}=0: no worker would respond, and the image hangs; with code, set 1 or more"
        )
    if inert := list_unused_variables(environment, gunicorn=has_gunicorn):
        log(f"these variables have no effect on this endpoint: {', '.join(inert)}")
    plan = EndpointPlan(
        settings=settings,
        folder=options.folder,
        models=models,
        default_model=default_model,
        code=code,
        record=options.record,
        front=front,
    )
    for variable, key in KEYS.items():
        if variable in environment:
            log(f"container.{key}: {variable}={environment[variable]}")
    return plan


def _prepare_code(model: Path) -> ArchiveCode | None:
    """Return the archive's code, with packages for this Python; log differences."""
    code = find_code(model)
    if code is None:
        return None
    code = replace(code, packages=provide_compiled_packages(code.folder))
    for path in code.packages.paths:
        log(f"{path} is imported instead of the package for a different Python in code/lib")
    for problem in code.packages.problems:
        log(problem)
    if (code.folder / "requirements.txt").exists() and not (code.folder / "lib").exists():
        not_here = "is not installed on this computer; the container would install it"
        log(f"code/requirements.txt {not_here}")
    return code


async def _enforce_memory_limit(limit_mib: int) -> NoReturn:
    """Kill the largest child process whenever all exceed `limit_mib`, as the kernel does."""
    while True:
        await asyncio.sleep(0.25)
        # Shared pages are divided between forks; macOS tells a process's own ones only.
        mib: dict[psutil.Process, float] = {}
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has ended
                memory = child.memory_full_info()
                mib[child] = getattr(memory, "pss", memory.uss) / 2**20
        if mib and sum(mib.values()) > limit_mib:
            largest = max(mib, key=lambda child: mib[child])
            log(
                f"out of memory: {sum(mib.values()):.0f} MiB of {limit_mib} MiB are used; "
                f"process {largest.pid} with {mib[largest]:.0f} MiB is killed"
            )
            with contextlib.suppress(psutil.NoSuchProcess):  # it has already ended
                largest.kill()


if __name__ == "__main__":
    main()
