"""Cost of the client beside plain boto3: `make bench-client`. Writes result.json and docs/performance.md.

CPU time of this process, user and system: what the server takes is not in it.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import boto3
import numpy as np

from benchmarks import workload
from benchmarks.frame import ROOT, Log, Result, machine, main, rounds
from benchmarks.load.null_server import null_server
from benchmarks.tables import Bound, quotients, target, ways_table
from servable_client import Endpoint
from servable_client.formats import content_type, encode
from servable_client.options import Selection
from servable_tensors import tensors

BLOCKS, CALLS, IMPORTS = 20, 200, 5
# What is compared with what, and the most it may be. Source: the requirements of this project.
MOST_RATIOS = [
    ("one row, the form chosen by the client", "client, small", "boto3, JSON, small", 1.15),
    ("one row, JSON", "client, JSON, small", "boto3, JSON, small", 1.15),
    ("2,230 rows, the form chosen by the client", "client, large", "boto3, JSON, large", 0.2),
    ("2,230 rows, npy", "client, npy, large", "boto3, npy ready, large", 1.3),
    ("2,230 rows, protobuf", "client, protobuf, large", "boto3, protobuf ready, large", 1.8),
]
# A large JSON body costs a quarter of a second: as many blocks, each a tenth as long.
SHORTER = {"boto3, JSON, large": 20}
IMPORT = (
    "import time; t = time.perf_counter(); import servable_client; print(time.perf_counter() - t)"
)
NAME = "benchmark"
Way = Callable[[], tensors.Array]


def ways(url: str) -> dict[str, Way]:
    """Ways by name. Each starts from the array and ends with the output as an array."""
    session = boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="x", region_name="us-east-1"
    )
    # boto3's own defaults, but for the address.
    runtime = session.client("sagemaker-runtime", endpoint_url=url)
    client = Endpoint(NAME, session=session, endpoint_url=url)
    small, large = workload.rows(1), workload.rows(2230)
    npy, protobuf = (encode(form, {"x": large}, Selection()) for form in ("npy", "protobuf"))

    def sent(body: bytes | str, form: str) -> tensors.Array:
        mime = content_type(form)
        response = runtime.invoke_endpoint(
            EndpointName=NAME, ContentType=mime, Accept=mime, Body=body
        )
        return np.array(json.load(response["Body"])["outputs"])

    def as_json(array: tensors.Array) -> tensors.Array:
        return sent(json.dumps({"inputs": {"x": array.tolist()}}), "json")

    def ours(array: tensors.Array, form: str | None) -> Way:
        return lambda: client.predict(x=array, format=form).only

    return {
        "boto3, JSON, small": lambda: as_json(small),
        "client, small": ours(small, None),
        "client, JSON, small": ours(small, "json"),
        "boto3, JSON, large": lambda: as_json(large),
        "client, large": ours(large, None),
        "boto3, npy ready, large": lambda: sent(npy, "npy"),
        "client, npy, large": ours(large, "npy"),
        "boto3, protobuf ready, large": lambda: sent(protobuf, "protobuf"),
        "client, protobuf, large": ours(large, "protobuf"),
    }


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    with null_server() as server:
        all_ways = ways(server.url)
        for way in [*all_ways.values()] * 3:  # connections made, caches filled
            way()
        blocks = {
            name: partial(_cpu_ms, way, SHORTER.get(name, CALLS)) for name, way in all_ways.items()
        }
        costs = rounds(blocks, BLOCKS, log)
    command = [sys.executable, "-c", IMPORT]
    imports = [subprocess.check_output(command, cwd=ROOT) for _ in range(IMPORTS)]
    return {
        "machine": before,
        "calls": CALLS,
        "shorter": SHORTER,
        "cpu_ms_per_call": costs,
        "import_seconds": [float(seconds) for seconds in imports],
    }


def _cpu_ms(way: Way, calls: int) -> float:
    start = time.process_time()
    for _ in range(calls):
        way()
    return 1000 * (time.process_time() - start) / calls


def fields(result: Result) -> dict[str, Any]:
    costs = result["cpu_ms_per_call"]
    lines = ["| client / boto3 | median | interval | wanted | |", "|---|---:|---:|---:|---|"]
    for label, ours, theirs, most in MOST_RATIOS:
        ratios = sorted(quotients(costs[ours], costs[theirs]))
        middle, (low, high) = median(ratios), interval(ratios)
        limits = f"{low:.3f}x to {high:.3f}x", f"at most {most:g}x"
        lines.append(target(label, f"{middle:.3f}x", *limits, middle <= most))
    label, seconds = "`import servable_client`", result["import_seconds"]
    lines.append(Bound(label=label, values=seconds, most=0.4, unit=" s").row())
    shorter = [f"{calls} calls for {name}" for name, calls in result["shorter"].items()]
    return {
        "blocks": len(next(iter(costs.values()))),
        "shorter": ", ".join(shorter),
        "ways": ways_table(("CPU-ms per call", "lowest to highest"), costs),
        "bounds": lines,
    }


def interval(ordered: list[float]) -> tuple[float, float]:
    """Confidence interval of the median, about 95 %, by order statistics, without a distribution."""
    # Half of the values, less about two deviations of a binomial: 6th and 15th of 20.
    low = max(0, round(len(ordered) / 2 - len(ordered) ** 0.5 + 0.4) - 1)
    return ordered[low], ordered[len(ordered) - 1 - low]


if __name__ == "__main__":
    sys.exit(main("client", measure))
