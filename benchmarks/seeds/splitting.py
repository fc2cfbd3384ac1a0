"""S4: 500 rows whole, in ten parts side by side, and as the client chooses by itself."""

from functools import partial
from itertools import permutations
from statistics import median
from typing import Any

from benchmarks import workload
from benchmarks.seeds.bench import Bench, latency_ms
from benchmarks.seeds.flask_server import flask_server
from servable_client import Endpoint, Split
from servable_client.batches import Progress

MODELS = ("small",)
ROWS, PART_ROWS = 500, 50
REPEATS = 8
CALLS_HERE, CALLS_SIMULATED = 60, 12  # as often in each of the six orders
# Three of each number of parts: 1, 2, 4, 8, 10 and 20 with the client's 10 connections.
LEARNING_CALLS = 20
ROW_MS = 0.3  # 150 ms for 500 rows on one core: the article's request, whole
SIMULATED_CORES, SIMULATED_THREADS = (1, 4, 16), 64
# Every output has a row for each row: without the request more that tells so (decision 0036).
IN_TENS = Split(rows=PART_ROWS, constant=frozenset())
WAYS: dict[str, Any] = {"whole": None, "10 x 50": IN_TENS, "chosen": "measured"}
ORDERS = list(permutations(WAYS))


def measured(bench: Bench) -> list[dict[str, Any]]:
    rows = []
    with bench.serve("small") as server:
        rows += _split(server.url, "local endpoint", CALLS_HERE)
    bench.log("local endpoint")
    for cores in SIMULATED_CORES:
        label = f"simulated, {cores} core{'s' if cores > 1 else ''}"
        variables = {"HOW": "wait", "CORES": str(cores), "ROW_MS": str(ROW_MS)}
        with flask_server(variables, threads=SIMULATED_THREADS) as flask:
            rows += _split(flask.url, label, CALLS_SIMULATED)
        bench.log(label)
    return rows


def _split(url: str, where: str, calls: int) -> list[dict[str, Any]]:
    array, rows = workload.rows(ROWS), []
    with Endpoint.local(url, format="npy") as endpoint:
        for _ in range(LEARNING_CALLS):
            endpoint.predict(array, split="measured")
        for repeat in range(REPEATS):
            # In turn call by call, so that what slows the computer slows all ways; in every order,
            # since what comes after ten parts at once finds busier caches: each does as often.
            latencies: dict[str, list[float]] = {way: [] for way in WAYS}
            for number in range(calls):
                for way in ORDERS[number % len(ORDERS)]:
                    call = partial(endpoint.predict, array, split=WAYS[way])
                    latencies[way].append(latency_ms(call))
            steps: list[Progress] = []
            endpoint.predict(array, split="measured", progress=steps.append)
            parts = {"whole": 1, "10 x 50": ROWS // PART_ROWS, "chosen": steps[-1].parts}
            for way, of in latencies.items():
                row = {"repeat": repeat, "where": where, "way": way, "parts": parts[way]}
                rows.append({**row, "latency_ms": median(of)})
    return rows
