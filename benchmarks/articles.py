"""Runs the articles' experiments, both sides in one run.

    python -m benchmarks.articles FOLDER

writes the Keras models, in a separate process: the benchmark itself doesn't load TensorFlow.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import endpoints
from benchmarks.endpoints import JSON, NPY, EndpointCaller, encode_rows, generate_rows, pack
from benchmarks.frame import Bounds, Log, Result, Spread, divide, measure_in_turn
from infra.policy.container import DEFAULT_MODEL_NAME, ContainerSettings, build_variables
from servable_client import Endpoint, Split
from servable_local.container.launch import launch

TITLE = "The articles"
CLAIMS = True
TEXT = """\
What the articles claim, measured on both sides in one run. A claim shows if every repeat of the ratio is
within the bound. Flask has the Keras model inside Gunicorn's workers and calls it directly. Callers,
workers, and the model share two cores: they can't show what tuned settings bring on 36 (S2), nor compute
the parts of a batch at once (S4). A model that is loaded delays the callers of another one (S3): p99 was
3.3 times as high (2.8-4.1, 2026-11-21), and with one Gunicorn thread, the image's default up to 2.19, the
callers waited until it was loaded.
"""
FLASK, OURS, ANY = "Flask", "ours", float("inf")
BOUNDS: Bounds = {
    "S0: latency, 1 row, Flask / ours": (1, ANY),
    "S0: CPU, 1 row, Flask / ours (40 % less)": (1 / 0.6, ANY),
    "S0: CPU, 111 rows of npy, Flask / ours (40 % less)": (1 / 0.6, ANY),
    "S1: requests/s, 1 worker, ours / Flask (6x)": (1, ANY),
    "S1: memory of 4 workers, 200 MB of weights, Flask / ours": (1, ANY),
    "S0: protobuf of 2,230 rows, REST / gRPC inside": (1, ANY),
    "S4: JSON of 200 KB, gRPC / REST inside": (1, ANY),
    "S4: JSON of 4 MB, REST / gRPC inside": (1, ANY),
    "S4: 500 rows, whole / 10 x 50 (1.5x)": (1, ANY),
    "500 rows, the client's choice / the better of both": (0, 1.1),
}
REPEATS, SECONDS = 5, 1.0
# Hidden widths: about 2 and 200 MB of weights.
WIDTHS = {"small": 512, "large": 6_950}
SPLITS: dict[str, Any] = {
    "whole": None,
    "10 x 50": Split(rows=50, constant=frozenset()),
    "chosen": "measured",
}
FORMS = (("protobuf", 2_230), ("json", 111), ("json", 2_230))
Call = Callable[[], object]


def measure(folder: Path, log: Log) -> Result:
    """Run every experiment."""
    command = [sys.executable, "-m", "benchmarks.articles", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    for name in WIDTHS:
        pack(folder / f"{name}.tar.gz", {name: folder / name}, handler=True)
    ratios: list[Spread] = []
    for experiment in (compare_flask, compare_memory, compare_transports, compare_splits):
        ratios += experiment(folder, log)
    return {"table": {}, "ratios": dict(zip(BOUNDS, ratios, strict=True))}


def compare_flask(folder: Path, log: Log) -> list[Spread]:
    """Compare latency, CPU, and rate of one worker."""
    with start_flask(MODEL=str(folder / "small.keras")) as (url, pids), ExitStack() as stack:
        ours = stack.enter_context(start_ours(folder, "small"))
        sides = {FLASK: (url, pids), OURS: (ours.url, lambda: endpoints.list_processes(ours))}

        def measure_request(side: str, content_type: str, rows: int) -> tuple[float, float]:
            """Return milliseconds and CPU-ms of a request."""
            url, list_pids = sides[side]
            body, caller = encode_rows(content_type, rows), EndpointCaller(url)
            call = partial(caller.invoke, body, content_type)
            call()
            before, times = endpoints.read_cpu_ms(list_pids()), time_calls(call, SECONDS)
            return median(times), (endpoints.read_cpu_ms(list_pids()) - before) / len(times)

        cases = {"1 row": (JSON, 1), "npy": (NPY, 111)}
        ways = {
            f"{side}, {case}": partial(measure_request, side, *cases[case])
            for side in sides
            for case in cases
        }
        rates = {side: partial(measure_rate, sides[side][0], JSON, 1) for side in sides}
        runs, rps = measure_in_turn(ways, REPEATS, log), measure_in_turn(rates, REPEATS, log)
    latency, cpu = ({way: [run[at] for run in runs[way]] for way in runs} for at in (0, 1))
    return [
        divide(latency[f"{FLASK}, 1 row"], latency[f"{OURS}, 1 row"]),
        *(divide(cpu[f"{FLASK}, {case}"], cpu[f"{OURS}, {case}"]) for case in cases),
        divide(rps[OURS], rps[FLASK]),
    ]


def compare_memory(folder: Path, log: Log) -> list[Spread]:
    """Compare four workers with the large model, once, because memory doesn't vary."""
    with start_flask(workers=4, MODEL=str(folder / "large.keras")) as (url, pids):
        measure_rate(url, JSON, 1)
        flask = endpoints.read_memory_mb(pids())
    with start_ours(folder, "large", gunicorn_workers=4) as endpoint:
        measure_rate(endpoint.url, JSON, 1)
        ours = endpoints.read_memory_mb(endpoints.list_processes(endpoint))
    log(f"memory: {flask:.0f} and {ours:.0f} MB")
    return [divide([flask], [ours])]


def compare_transports(folder: Path, log: Log) -> list[Spread]:
    """Compare the transports inside the container."""
    with ExitStack() as stack:
        ways = {}
        for transport in ("rest", "grpc"):
            endpoint = stack.enter_context(start_ours(folder, "small", transport=transport))
            client = stack.enter_context(Endpoint.local(endpoint.url))
            for form, rows in FORMS:
                call = partial(client.predict, x=generate_rows(rows), format=form)
                ways[f"{transport}, {form}, {rows}"] = partial(measure_median_ms, call)
        times = measure_in_turn(ways, REPEATS, log)
    cases = (("rest", "grpc"), ("grpc", "rest"), ("rest", "grpc"))
    return [
        divide(*(times[f"{side}, {form}, {rows}"] for side in sides))
        for sides, (form, rows) in zip(cases, FORMS, strict=True)
    ]


def compare_splits(folder: Path, log: Log) -> list[Spread]:
    """Compare 500 rows whole, in ten parts, and as the client chooses after 20 calls of learning."""
    array = generate_rows(500)
    with start_ours(folder, "small") as server, Endpoint.local(server.url, format="npy") as client:
        for _ in range(20):
            client.predict(array, split="measured")
        calls = {way: partial(client.predict, array, split=SPLITS[way]) for way in SPLITS}
        ways = {way: partial(measure_median_ms, call) for way, call in calls.items()}
        times = measure_in_turn(ways, REPEATS, log)
    better = min(("whole", "10 x 50"), key=lambda way: median(times[way]))
    return [divide(times["whole"], times["10 x 50"]), divide(times["chosen"], times[better])]


def time_calls(call: Call, seconds: float) -> list[float]:
    """Return the milliseconds of each of the calls made one after the other for `seconds`."""
    times, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        call()
        times.append(1000 * (time.perf_counter() - start))
    return times


def measure_median_ms(call: Call) -> float:
    """Return the median milliseconds of consecutive calls, after one that isn't counted."""
    call()
    return median(time_calls(call, SECONDS))


def measure_rate(url: str, content_type: str, rows: int) -> float:
    """Return requests per second of eight callers, each with a connection of its own."""
    callers, body = [EndpointCaller(url) for _ in range(8)], encode_rows(content_type, rows)
    with ThreadPoolExecutor(len(callers)) as pool:
        calls = [partial(caller.invoke, body, content_type) for caller in callers]
        times = pool.map(partial(time_calls, seconds=SECONDS), calls)
        return sum(map(len, times)) / SECONDS


def start_ours(folder: Path, model: str, **settings: Any) -> Any:
    """Start an endpoint with Servable's handler."""
    variables = build_variables(ContainerSettings.model_validate(settings), default_model=None)
    archive = folder / f"{model}.tar.gz"
    return launch(archive, variables | {DEFAULT_MODEL_NAME: model}, ready_timeout_seconds=120)


@contextmanager
def start_flask(workers: int = 1, **given: str) -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """Start Flask behind Gunicorn; yield its URL and a function that lists its processes.

    gthread with one thread processes one request at a time, like sync, but it keeps connections.
    """
    environment: Mapping[str, str] = {**os.environ, **given, "TF_CPP_MIN_LOG_LEVEL": "3"}
    with tempfile.NamedTemporaryFile("r") as log:
        command = [sys.executable, "-m", "gunicorn", "benchmarks.flask_app:app"]
        command += ["--bind=127.0.0.1:0", "--worker-class=gthread", "--timeout=300"]
        command += ["--keep-alive=60", f"--workers={workers}"]
        process = subprocess.Popen(
            [*command, f"--log-file={log.name}"], env=environment, start_new_session=True
        )
        try:
            text, until = "", time.monotonic() + 120
            while text.count("worker is ready") < workers:
                if time.monotonic() > until or process.poll() is not None:
                    raise RuntimeError(f"Flask's workers did not start: {text[-500:]}")
                time.sleep(0.05)
                text += log.read()
            server = psutil.Process(process.pid)
            url = text.split("Listening at: ")[1].split()[0]
            yield url, lambda: [server.pid, *(each.pid for each in server.children())]
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _save_models(folder: Path) -> None:
    import keras

    for name, width in WIDTHS.items():
        keras.utils.set_random_seed(20)
        hidden = [keras.layers.Dense(width, activation="relu") for _ in range(2)]
        rows = keras.Input((endpoints.COLUMNS,), name="x")
        model = keras.Sequential([rows, *hidden, keras.layers.Dense(1, name="y")])
        model.save(folder / f"{name}.keras")
        model.export(folder / name, verbose=False)


if __name__ == "__main__":
    _save_models(Path(sys.argv[1]))
