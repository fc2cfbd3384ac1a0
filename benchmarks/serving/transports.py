"""CPU time of one request by contender, size and part: five repeats, in turn."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import workload
from benchmarks.callers import EndpointCaller
from benchmarks.command import Told, in_turn
from benchmarks.cost import Cpu, cpu
from servable_local.container.launch import EndpointProcess, launch

REPEATS = 5
REQUESTS = {1: 1000, 111: 250, 2_230: 30}
# Each in turn with the others, so that all meet the computer's slow moments: it has some that last
# longer than all of one contender's requests do.
SLICES = 10
CONTENDERS = Path(__file__).parent / "contenders"
# contender -> (its inference.py, what it is sent)
WAYS = {
    "handlers over REST": ("over_rest.py", workload.JSON),
    "gRPC from JSON": ("grpc_from_json.py", workload.JSON),
    "empty handler": ("empty.py", workload.JSON),
    "ours, JSON": ("ours.py", workload.JSON),
    "ours, npy": ("ours.py", workload.NPY),
    "ours, protobuf": ("ours.py", workload.PROTOBUF),
    "ours through grpcio, npy": ("ours_grpcio.py", workload.NPY),
    "ours through grpcio, protobuf": ("ours_grpcio.py", workload.PROTOBUF),
}


def archives(folder: Path, model: Path) -> dict[str, Path]:
    """One for each inference.py."""
    return {
        name: workload.pack(
            folder / f"{name}.tar.gz",
            {"rows": model},
            {"inference.py": (CONTENDERS / name).read_bytes()},
            handler=name in ("ours.py", "ours_grpcio.py", "grpc_from_json.py"),
        )
        for name in sorted({name for name, _ in WAYS.values()})
    }


def measured(packed: dict[str, Path], told: Told) -> list[dict[str, Any]]:
    """One row for each repeat, size and contender."""
    found: list[dict[str, Any]] = []
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(launch(archive, {})) for name, archive in packed.items()
        }
        for process in running.values():
            _ask(process, workload.JSON, 1, 20)
        for repeat in range(REPEATS):
            for count in workload.ROWS:
                spent = dict.fromkeys(WAYS, Cpu(0, 0))
                for _, way in in_turn(WAYS, SLICES):
                    name, form = WAYS[way]
                    spent[way] += _spent(running[name], form, count)
                for way, of in spent.items():
                    found.append({"repeat": repeat, "way": way, "rows": count, **_each(of, count)})
            told(f"repeat {repeat + 1} of {REPEATS}: {_shown(found, repeat)}")
    return found


def _spent(process: EndpointProcess, form: str, count: int) -> Cpu:
    """In one slice, after a request that finds the caches as the one before left them."""
    _ask(process, form, count, 1)
    before = cpu(process)
    _ask(process, form, count, REQUESTS[count] // SLICES)
    return cpu(process) - before


def _each(spent: Cpu, count: int) -> dict[str, float]:
    return {
        "gateway_ms": spent.gateway_ms / REQUESTS[count],
        "model_server_ms": spent.model_server_ms / REQUESTS[count],
    }


def _ask(process: EndpointProcess, form: str, count: int, requests: int) -> None:
    body, caller = workload.body(form, count), EndpointCaller(process.url)
    for _ in range(requests):
        status, answer = caller.ask(body, form)
        if status != 200:
            raise RuntimeError(f"{form}, {count} rows: {status} {answer[:300]!r}")


def _shown(found: list[dict[str, Any]], repeat: int) -> str:
    smallest = [row for row in found if row["repeat"] == repeat and row["rows"] == 1]
    return ", ".join(f"{row['way']} {row['gateway_ms']:.2f}" for row in smallest)
