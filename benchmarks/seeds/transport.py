"""S0 and S4: what a body's form and the way to the model server cost, by size.

From the client's call with an array until it has the decoded answer.
"""

from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any, Literal

from benchmarks import workload
from benchmarks.frame import in_turn
from benchmarks.seeds.bench import Bench, latency_ms
from infra.policy.container import ContainerSettings
from servable_client import Endpoint

MODELS = ("small",)
REPEATS = 8
CALLS = {1: 60, 111: 20, 2_230: 2}
FORMS = ("json", "npy", "protobuf")
TRANSPORTS: tuple[Literal["rest", "grpc"], ...] = ("rest", "grpc")


def measured(bench: Bench) -> list[dict[str, Any]]:
    latencies = []
    with ExitStack() as stack:
        ways = []
        for transport in TRANSPORTS:
            served = bench.serve("small", ContainerSettings(transport=transport))
            url = stack.enter_context(served).url
            endpoint = stack.enter_context(Endpoint.local(url))
            ways += [(transport, endpoint, form) for form in FORMS]
        for repeat, (transport, endpoint, form) in in_turn(ways, REPEATS):
            for rows, calls in CALLS.items():
                call = partial(endpoint.predict, x=workload.rows(rows), format=form)
                call()
                row = {"repeat": repeat, "transport": transport, "form": form, "rows": rows}
                latency = median(latency_ms(call) for _ in range(calls))
                latencies.append({**row, "latency_ms": latency})
            bench.log(f"repeat {repeat + 1} of {REPEATS}: {form} body, {transport} inside")
    return latencies
