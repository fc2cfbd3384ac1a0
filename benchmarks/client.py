"""Measures the CPU time of the client, compared with plain boto3."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import boto3
import numpy as np

from benchmarks.endpoints import generate_rows
from benchmarks.frame import Log, Result, compute_spread, divide, measure_in_turn
from benchmarks.null_server import start_null_server
from servable_client import Endpoint
from servable_client.formats import encode, find_content_type
from servable_client.options import Selection
from servable_tensors.tensors import Array

TITLE = "The client"
CLAIMS = False
TEXT = """\
CPU-ms of the calling process for one call, from the array that is sent to the array that comes back,
against a server that answers at once. boto3 has its own settings; "ready" means that it only sends bytes
that exist.
"""
SMALL, LARGE, REPEATS = 1, 2_230, 10
# (client, boto3): the bound.
COMPARED = {
    ("client, 1 row", "boto3, JSON, 1 row"): (0.0, 1.3),
    ("client, JSON, 1 row", "boto3, JSON, 1 row"): (0.0, 1.3),
    ("client, 2,230 rows", "boto3, JSON, 2,230 rows"): (0.0, 0.2),
    ("client, npy, 2,230 rows", "boto3, npy ready, 2,230 rows"): (0.0, 1.4),
    ("client, protobuf, 2,230 rows", "boto3, protobuf ready, 2,230 rows"): (0.0, 1.8),
}
BOUNDS = {f"{ours} / {theirs}": bound for (ours, theirs), bound in COMPARED.items()}
# Calls of one block; a large JSON body takes a third of a second.
CALLS, SLOW_CALLS = 200, 10
NAME = "benchmark"
Way = Callable[[], Array]


def measure(_: Path, log: Log) -> Result:
    """Measure every way in turn."""
    with start_null_server() as (url, _end):
        ways = build_clients(url)
        for way in [*ways.values()] * 3:  # connections made, caches filled
            way()
        costs = measure_in_turn(
            {name: partial(_measure_cpu_ms, name, ways[name]) for name in ways}, REPEATS, log
        )
    ratios = [divide(costs[ours], costs[theirs]) for ours, theirs in COMPARED]
    return {
        "table": {name: {"CPU-ms": compute_spread(values)} for name, values in costs.items()},
        "ratios": dict(zip(BOUNDS, ratios, strict=True)),
    }


def build_clients(url: str) -> dict[str, Way]:
    """Return the ways by name. Each starts from an array and ends with the output as an array."""
    session = boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="x", region_name="us-east-1"
    )
    runtime = session.client("sagemaker-runtime", endpoint_url=url)
    client = Endpoint(NAME, session=session, endpoint_url=url)
    small, large = generate_rows(SMALL), generate_rows(LARGE)
    ready = {form: encode(form, {"x": large}, Selection()) for form in ("npy", "protobuf")}

    def send(body: bytes | str, form: str) -> Array:
        mime = find_content_type(form)
        response = runtime.invoke_endpoint(
            EndpointName=NAME, ContentType=mime, Accept=mime, Body=body
        )
        return np.array(json.load(response["Body"])["outputs"])

    def predict(array: Array, form: str | None) -> Array:
        return client.predict(x=array, format=form).only

    def send_json(array: Array) -> Array:
        return send(json.dumps({"inputs": {"x": array.tolist()}}), "json")

    return {
        "boto3, JSON, 1 row": partial(send_json, small),
        "client, 1 row": partial(predict, small, None),
        "client, JSON, 1 row": partial(predict, small, "json"),
        "boto3, JSON, 2,230 rows": partial(send_json, large),
        "client, 2,230 rows": partial(predict, large, None),
        "boto3, npy ready, 2,230 rows": partial(send, ready["npy"], "npy"),
        "client, npy, 2,230 rows": partial(predict, large, "npy"),
        "boto3, protobuf ready, 2,230 rows": partial(send, ready["protobuf"], "protobuf"),
        "client, protobuf, 2,230 rows": partial(predict, large, "protobuf"),
    }


def _measure_cpu_ms(name: str, way: Way) -> float:
    calls = SLOW_CALLS if name == "boto3, JSON, 2,230 rows" else CALLS
    start = time.process_time()
    for _ in range(calls):
        way()
    return 1000 * (time.process_time() - start) / calls
