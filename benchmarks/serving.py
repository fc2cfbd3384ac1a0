"""Measures the CPU time of a request through the handler, compared with other handlers."""

from contextlib import ExitStack
from pathlib import Path

from benchmarks import endpoints
from benchmarks.endpoints import JSON, NPY, PROTOBUF, ROWS
from benchmarks.frame import Log, Result, compute_spread, divide, take_turns
from servable_local.container.launch import EndpointProcess, launch

TITLE = "The handler"
CLAIMS = False
TEXT = """\
CPU-ms of one request: nginx's stand-in, Gunicorn, and the worker, plus the model server. It compares
handlers over REST (`input_handler` and `output_handler`), gRPC from JSON (the json module and the
container's channel), a handler that only reads the body, and Servable's handler, also through grpcio
instead of its built-in gRPC client (above 16 kB both use grpcio). Rows have 256 float32. gRPC and REST
inside the local container don't compare like TensorFlow Serving's.
"""
REST, GRPC, EMPTY, GRPCIO = "handlers over REST", "gRPC from JSON", "empty handler", "ours, grpcio"
# What is started (the contender and its variables), and what it is sent.
WAYS: dict[str, tuple[str, dict[str, str], str]] = {
    REST: ("over_rest", {}, JSON),
    GRPC: ("grpc_from_json", {}, JSON),
    EMPTY: ("empty", {}, JSON),
    "ours, JSON": ("ours", {}, JSON),
    "ours, npy": ("ours", {}, NPY),
    "ours, protobuf": ("ours", {}, PROTOBUF),
    f"{GRPCIO}, npy": ("ours", {"THROUGH_GRPCIO": "1"}, NPY),
    f"{GRPCIO}, protobuf": ("ours", {"THROUGH_GRPCIO": "1"}, PROTOBUF),
}
NO_LIMIT = float("inf")
# (above, below, rows, whole stack or the web server alone): the bound.
COMPARED = {
    (GRPC, "ours, protobuf", 2_230, False): (8, NO_LIMIT),
    (GRPC, "ours, npy", 2_230, False): (4, NO_LIMIT),
    (REST, "ours, protobuf", 2_230, True): (5, NO_LIMIT),
    (REST, "ours, npy", 2_230, True): (3, NO_LIMIT),
    ("ours, JSON", EMPTY, 1, False): (0, 1.6),
    ("ours, npy", EMPTY, 1, False): (0, 1.6),
    ("ours, protobuf", EMPTY, 1, False): (0, 1.6),
    ("ours, JSON", REST, 111, False): (0, 1.05),
    ("ours, JSON", REST, 2_230, False): (0, 1.05),
    # Where grpcio costs as much as the built-in gRPC client, that client goes (docs/decisions/0035).
    (f"{GRPCIO}, npy", "ours, npy", 1, True): (1.1, NO_LIMIT),
    (f"{GRPCIO}, protobuf", "ours, protobuf", 1, True): (1.1, NO_LIMIT),
}
LABELS = {
    case: f"{case[0]} / {case[1]}, {ROWS[case[2]]}, {'whole stack' if case[3] else 'web server'}"
    for case in COMPARED
}
BOUNDS = {LABELS[case]: bound for case, bound in COMPARED.items()}
REPEATS, SLICES = 5, 10
REQUESTS = {1: 1000, 111: 250, 2_230: 30}
EMPTY_CODE = b"def handler(data, context):\n    data.read()\n    return b'{}', 'application/json'\n"
CONTENDERS = Path(__file__).parent / "contenders"
Cost = tuple[float, float]
"""CPU-ms of the web server, and of the model server."""


def measure(folder: Path, log: Log) -> Result:
    """Send requests to every way in slices that take turns, so that a slow moment affects all."""
    model = endpoints.export_model(folder / "model")
    costs: dict[tuple[str, int], list[Cost]] = {}
    with ExitStack() as stack:
        running: dict[str, EndpointProcess] = {}
        for way, (name, variables, _) in WAYS.items():
            file = CONTENDERS / f"{name}.py"
            code = file.read_bytes() if file.exists() else EMPTY_CODE
            ours = name in ("ours", "grpc_from_json")
            archive = endpoints.pack(folder / "a.tar.gz", {"rows": model}, code, handler=ours)
            running[way] = stack.enter_context(launch(archive, variables))
            _send_requests(running[way], JSON, 1, 20)
        for repeat in range(REPEATS):
            for count, requests in REQUESTS.items():
                spent = dict.fromkeys(WAYS, (0.0, 0.0))
                for way in take_turns(WAYS, SLICES):
                    used = _measure_cpu_ms(running[way], WAYS[way][2], count, requests // SLICES)
                    web, model_server = (a + b for a, b in zip(spent[way], used, strict=True))
                    spent[way] = web, model_server
                for way, (web, model_server) in spent.items():
                    each = web / requests, model_server / requests
                    costs.setdefault((way, count), []).append(each)
            log(f"repeat {repeat + 1} of {REPEATS}")
    return summarize(costs)


def summarize(costs: dict[tuple[str, int], list[Cost]]) -> Result:
    """Return the table and the ratios from the costs of each way and number of rows."""
    table: dict[str, dict[str, list[float]]] = {way: {} for way in WAYS}
    for (way, count), several in costs.items():
        for label, values in zip(("web", "model"), zip(*several, strict=True), strict=True):
            table[way][f"{ROWS[count]}, {label}"] = compute_spread(values)[:1]
    ratios = {}
    for (above, below, count, whole), label in LABELS.items():
        sides = (
            [web + model * whole for web, model in costs[way, count]] for way in (above, below)
        )
        ratios[label] = divide(*sides)
    return {"table": table, "ratios": ratios}


def _measure_cpu_ms(process: EndpointProcess, content_type: str, count: int, requests: int) -> Cost:
    """Return the CPU time of some requests, after one that finds another way's caches."""
    _send_requests(process, content_type, count, 1)
    before = _read_cpu_ms(process)
    _send_requests(process, content_type, count, requests)
    web, model_server = (a - b for a, b in zip(_read_cpu_ms(process), before, strict=True))
    return web, model_server


def _read_cpu_ms(process: EndpointProcess) -> Cost:
    parts = process.parts
    web = (parts.nginx, parts.gunicorn, *parts.workers)
    return endpoints.read_cpu_ms(web), endpoints.read_cpu_ms(parts.model_servers)


def _send_requests(process: EndpointProcess, content_type: str, count: int, requests: int) -> None:
    body, caller = endpoints.encode_rows(content_type, count), endpoints.EndpointCaller(process.url)
    for _ in range(requests):
        caller.invoke(body, content_type)
