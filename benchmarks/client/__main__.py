"""Cost of the client beside plain boto3: `make bench-client`. Writes result.json and docs/performance.md.

CPU time of this process, user and system: what the endpoint's processes take is not in it.
"""

import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit

import boto3
import numpy as np

from benchmarks import workload
from benchmarks.frame import ROOT, Log, Result, machine, main, rounds
from benchmarks.tables import Bound, quotients, target, ways_table
from servable_client import Endpoint
from servable_client.formats import content_type, encode
from servable_client.options import Selection
from servable_local.container.launch import launch
from servable_tensors import tensors, wire

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
SMALL_ROWS, LARGE_ROWS = 1, 2230
# Between the bodies of one row and those of 2,230, in whatever form.
LARGE_FROM_BYTES = 100_000
Way = Callable[[], tensors.Array]
# What the model would do is not the client's: an answer lies ready, in the form that was asked for.
HANDLER = """
from pathlib import Path

HERE = Path(__file__).parent / "answers"
ANSWERS = {file.name: file.read_bytes() for file in HERE.iterdir()}
FORMS = {"application/x-protobuf": "protobuf", "application/x-npy": "npy"}


def handler(data, context):
    size = "large" if len(data.read()) > %d else "small"
    wanted = (context.accept_header or "").partition(",")[0]
    form = FORMS.get(wanted, "json")
    return ANSWERS[f"{size}.{form}"], wanted if form != "json" else "application/json"
"""


def pack(archive: Path) -> Path:
    """An archive with some model, which nobody asks, and answers of one float32 a row in three forms."""
    code = {"inference.py": (HANDLER % LARGE_FROM_BYTES).encode()}
    for size, count in (("small", SMALL_ROWS), ("large", LARGE_ROWS)):
        output = workload.rows(count)[:, 0]
        response = wire.PredictResponse()
        response.outputs["prob"].CopyFrom(tensors.to_proto(output))
        code[f"answers/{size}.protobuf"] = bytes(response.SerializeToString())
        code[f"answers/{size}.npy"] = workload.npy(output)
        code[f"answers/{size}.json"] = json.dumps({"outputs": output.tolist()}).encode()
    models = {"ranker": ROOT / "examples" / "ranker" / "model" / "1"}
    return workload.pack(archive, models, code)


def ways(url: str) -> dict[str, Way]:
    """Ways by name. Each starts from the array and ends with the output as an array."""
    session = boto3.session.Session(
        aws_access_key_id="123456789012", aws_secret_access_key="x", region_name="us-east-1"
    )
    session.events.register("before-sign.sagemaker-runtime.InvokeEndpoint", _to_the_container)
    # boto3's own defaults, but for the address.
    runtime = session.client("sagemaker-runtime", endpoint_url=url)
    client = Endpoint(NAME, session=session, endpoint_url=url)
    small, large = workload.rows(SMALL_ROWS), workload.rows(LARGE_ROWS)
    npy, protobuf = (encode(form, {"x": large}, Selection()) for form in ("npy", "protobuf"))

    def answer(body: bytes | str, form: str) -> bytes:
        mime = content_type(form)
        response = runtime.invoke_endpoint(
            EndpointName=NAME, ContentType=mime, Accept=mime, Body=body
        )
        return bytes(response["Body"].read())

    def as_json(array: tensors.Array) -> tensors.Array:
        body = json.dumps({"inputs": {"x": array.tolist()}})
        return np.array(json.loads(answer(body, "json"))["outputs"])

    def ready_protobuf() -> tensors.Array:
        response = wire.PredictResponse.FromString(answer(protobuf, "protobuf"))
        return tensors.to_array(response.outputs["prob"])

    def ready_npy() -> tensors.Array:
        return np.asarray(np.load(io.BytesIO(answer(npy, "npy"))))

    def ours(array: tensors.Array, form: str | None) -> Way:
        return lambda: client.predict(x=array, format=form).only

    return {
        "boto3, JSON, small": lambda: as_json(small),
        "client, small": ours(small, None),
        "client, JSON, small": ours(small, "json"),
        "boto3, JSON, large": lambda: as_json(large),
        "client, large": ours(large, None),
        "boto3, npy ready, large": ready_npy,
        "client, npy, large": ours(large, "npy"),
        "boto3, protobuf ready, large": ready_protobuf,
        "client, protobuf, large": ours(large, "protobuf"),
    }


def _to_the_container(request: Any, **_: Any) -> None:
    """/invocations, where a container listens, and not SageMaker's path."""
    parts = urlsplit(request.url)
    request.url = f"{parts.scheme}://{parts.netloc}/invocations"


def measure(folder: Path, log: Log) -> Result:
    before = machine()
    with launch(pack(folder / "model.tar.gz"), {}) as process:
        all_ways = ways(process.url)
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
