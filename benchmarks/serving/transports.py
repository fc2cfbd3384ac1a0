"""CPU time of one request by contender, size and part: five repeats, in turn."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workload
from benchmarks.callers import EndpointCaller
from benchmarks.cost import Cpu, cpu
from benchmarks.frame import Log, in_turn
from servable_local.container.launch import EndpointProcess, launch

REPEATS = 5
REQUESTS = {1: 1000, 111: 250, 2_230: 30}
# Each in turn with the others, so that all meet the computer's slow moments: it has some that last
# longer than all of one contender's requests do.
SLICES = 10
CONTENDERS = Path(__file__).parent / "contenders"
HANDLERS = ("ours.py", "grpc_from_json.py")
"""Those that take the packages of ours."""
THROUGH_GRPCIO = "ours.py, through grpcio"
# contender -> (what is started, what it is sent)
WAYS = {
    "handlers over REST": ("over_rest.py", workload.JSON),
    "gRPC from JSON": ("grpc_from_json.py", workload.JSON),
    "empty handler": ("empty.py", workload.JSON),
    "ours, JSON": ("ours.py", workload.JSON),
    "ours, npy": ("ours.py", workload.NPY),
    "ours, protobuf": ("ours.py", workload.PROTOBUF),
    "ours through grpcio, npy": (THROUGH_GRPCIO, workload.NPY),
    "ours through grpcio, protobuf": (THROUGH_GRPCIO, workload.PROTOBUF),
}


def archives(folder: Path, model: Path) -> dict[str, Path]:
    """One for each inference.py."""
    return {
        name: workload.pack(
            folder / f"{name}.tar.gz",
            {"rows": model},
            {"inference.py": (CONTENDERS / name).read_bytes()},
            handler=name in HANDLERS,
        )
        for name in ("over_rest.py", "grpc_from_json.py", "empty.py", "ours.py")
    }


def measured(packed: dict[str, Path], log: Log) -> list[dict[str, Any]]:
    """One row for each repeat, size and contender."""
    rows: list[dict[str, Any]] = []
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(launch(archive, {})) for name, archive in packed.items()
        }
        through_grpcio = launch(packed["ours.py"], {"THROUGH_GRPCIO": "1"})
        running[THROUGH_GRPCIO] = stack.enter_context(through_grpcio)
        for process in running.values():
            _send(process, workload.JSON, 1, 20)
        for repeat in range(REPEATS):
            for count in workload.ROWS:
                spent = {way: np.zeros(2) for way in WAYS}
                for _, way in in_turn(WAYS, SLICES):
                    name, form = WAYS[way]
                    spent[way] += _spent(running[name], form, count)
                for way, cost in spent.items():
                    gateway, model_server = (cost / REQUESTS[count]).tolist()
                    row = {"repeat": repeat, "way": way, "rows": count, "gateway_ms": gateway}
                    rows.append({**row, "model_server_ms": model_server})
            log(f"repeat {repeat + 1} of {REPEATS}")
    return rows


def _spent(process: EndpointProcess, form: str, count: int) -> Cpu:
    """CPU time of one slice, after a request that finds the caches as the one before left them."""
    _send(process, form, count, 1)
    before = cpu(process)
    _send(process, form, count, REQUESTS[count] // SLICES)
    return cpu(process) - before


def _send(process: EndpointProcess, form: str, count: int, requests: int) -> None:
    body, caller = workload.body(form, count), EndpointCaller(process.url)
    for _ in range(requests):
        caller.ask(body, form)
