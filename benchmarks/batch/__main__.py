"""A table through a transform job of the local AWS, beside a loop and the model server: `make bench-batch`.

ROWS=20000 takes a smaller table. Writes result.json and docs/performance.md.
"""

import argparse
import http.client
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import workload
from benchmarks.batch.table import CSV, JSON_LINES, lines, model_and_answers, rows
from benchmarks.frame import Log, Result, machine, main
from benchmarks.tables import Bound, short, table
from infra.policy.container import ContainerSettings, variables_of
from servable_local.aws import LocalAws, running
from servable_local.container.launch import launch
from servable_local.container.settings import PORT_RANGE
from servable_tensors.tensors import Array

ROWS, OBJECTS, CONCURRENT = 1_000_000, 4, 2
# A loop takes a row after the other, and says with these what more of them would take.
LOOP_ROWS, SERVER_SECONDS = 2_000, 5.0
# Source: the requirements of this project.
MOST_MEMORY_MB = 300
_LOOK_SECONDS = 0.2
NAME, BUCKET = "weighted", "tables"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu"
VARIABLES = variables_of(
    ContainerSettings(gunicorn_workers=CONCURRENT, gunicorn_timeout_seconds=600), default_model=NAME
)
TRUST = {
    "Effect": "Allow",
    "Principal": {"Service": "sagemaker.amazonaws.com"},
    "Action": "sts:AssumeRole",
}


def measure(folder: Path, log: Log, *, count: int) -> Result:
    before = machine()
    log("TensorFlow answers the table")
    model, answers = model_and_answers(folder, count)
    data = rows(count)
    archive = folder / "model.tar.gz"
    workload.pack(archive, {NAME: model}, {}, handler=True)
    result: Result = {"machine": before, "rows": count, "objects": OBJECTS, "forms": {}}
    result["server_rps"] = _server(archive, data, log)
    with running() as aws:
        _prepare(aws, archive)
        for form in (CSV, JSON_LINES):
            result["forms"][form] = _job(aws, data, answers, form)
            log(f"{form}: {result['forms'][form]}")
        result["loop_rps"] = _loop(aws, data)
        log(f"a loop: {result['loop_rps']:.0f} rows/s")
    return result


def _prepare(aws: LocalAws, archive: Path) -> None:
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.upload_file(str(archive), BUCKET, "model.tar.gz")
    policy = json.dumps({"Version": "2012-10-17", "Statement": [TRUST]})
    role = aws.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=policy)
    container = {"Image": IMAGE, "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}
    aws.client("sagemaker").create_model(
        ModelName=NAME,
        ExecutionRoleArn=role["Role"]["Arn"],
        PrimaryContainer=container | {"Environment": VARIABLES},
    )


def _job(aws: LocalAws, data: Array, answers: Array, form: str) -> dict[str, Any]:
    """Run the job; return rows a second, rows with another answer than TensorFlow's, and memory."""
    s3, sagemaker, ending = aws.client("s3"), aws.client("sagemaker"), form.partition("/")[2]
    for number, part in enumerate(np.array_split(data, OBJECTS)):
        body = b"".join(lines(part, form))
        s3.put_object(Bucket=BUCKET, Key=f"{ending}/{number}", Body=body)
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{ending}/"}
    with _peak_mb(aws.pid) as peak:
        sagemaker.create_transform_job(
            TransformJobName=ending,
            ModelName=NAME,
            MaxPayloadInMB=1,
            MaxConcurrentTransforms=CONCURRENT,
            BatchStrategy="MultiRecord",
            TransformInput={
                "DataSource": {"S3DataSource": source},
                "ContentType": form,
                "SplitType": "Line",
            },
            TransformOutput={
                "S3OutputPath": f"s3://{BUCKET}/{ending}-out",
                "Accept": form,
                "AssembleWith": "Line",
            },
            TransformResources={"InstanceType": "ml.c5.xlarge", "InstanceCount": 1},
        )
        while True:
            shown = sagemaker.describe_transform_job(TransformJobName=ending)
            if shown["TransformJobStatus"] != "InProgress":
                break
            time.sleep(_LOOK_SECONDS)
    if shown["TransformJobStatus"] != "Completed":
        raise RuntimeError(f"the job {ending}: {shown.get('FailureReason')}")
    seconds = (shown["TransformEndTime"] - shown["TransformStartTime"]).total_seconds()
    wrong = sum(
        _wrong(s3.get_object(Bucket=BUCKET, Key=f"{ending}-out/{number}.out")["Body"].read(), part)
        for number, part in enumerate(np.array_split(answers, OBJECTS))
    )
    return {
        "rps": len(data) / seconds,
        "seconds": seconds,
        "wrong_rows": wrong,
        "memory_mb": peak[0],
    }


def _wrong(result: bytes, answers: Array) -> int:
    """Count the rows that are missing, too many, out of order or unlike TensorFlow's answer."""
    given = np.array(result.split(), dtype=np.float32)
    common = min(len(given), len(answers))
    unlike = int((given[:common] != answers[:common]).sum())
    return unlike + abs(len(given) - len(answers))


@contextmanager
def _peak_mb(pid: int) -> Iterator[list[float]]:
    """The most memory of a process during the block, in MB, without its children's."""
    process, peak, ended = psutil.Process(pid), [0.0], threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_SECONDS):
            peak[0] = max(peak[0], process.memory_info().rss / 1e6)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    yield peak
    ended.set()
    watcher.join()


def _loop(aws: LocalAws, data: Array) -> float:
    """Rows per second of a plain loop over InvokeEndpoint, a row each time."""
    sagemaker, runtime = aws.client("sagemaker"), aws.client("sagemaker-runtime")
    variant = {"VariantName": "all", "ModelName": NAME, "InstanceType": "ml.c5.xlarge"}
    sagemaker.create_endpoint_config(
        EndpointConfigName=NAME, ProductionVariants=[variant | {"InitialInstanceCount": 1}]
    )
    sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
    sagemaker.get_waiter("endpoint_in_service").wait(
        EndpointName=NAME, WaiterConfig={"Delay": 1, "MaxAttempts": 100}
    )
    sample = b"".join(lines(data[:LOOP_ROWS], CSV)).splitlines()
    began = time.perf_counter()
    for line in sample:
        answer = runtime.invoke_endpoint(EndpointName=NAME, Body=line, ContentType=CSV, Accept=CSV)
        answer["Body"].read()
    return len(sample) / (time.perf_counter() - began)


def _server(archive: Path, data: Array, log: Log) -> float:
    """Rows per second of the model server's REST port, in bodies of about 1 MB, without any handler."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        low = free.getsockname()[1]
    sample = data[:20_000]
    body = json.dumps({"instances": sample.tolist()}).encode()
    with launch(archive, VARIABLES | {PORT_RANGE: f"{low}-{low + 9}"}):
        path = f"/v1/models/{NAME}:predict"
        end = time.perf_counter() + SERVER_SECONDS

        def call(_: int) -> int:
            connection, sent = http.client.HTTPConnection("127.0.0.1", low + 1, timeout=60), 0
            while time.perf_counter() < end:
                connection.request("POST", path, body)
                answer = connection.getresponse()
                answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"the model server answers {answer.status}")
                sent += len(sample)
            return sent

        began = time.perf_counter()
        with ThreadPoolExecutor(CONCURRENT) as pool:
            answered = sum(pool.map(call, range(CONCURRENT)))
        rate = answered / (time.perf_counter() - began)
    log(f"the model server alone: {rate:.0f} rows/s")
    return rate


def bounds(result: Result) -> list[Bound]:
    forms = result["forms"].values()
    wrong = [float(each["wrong_rows"]) for each in forms]
    memory = [each["memory_mb"] for each in forms]
    return [
        Bound(label="rows unlike TensorFlow's answers", values=[max(wrong)], most=0, form=".0f"),
        Bound(
            label="memory of the local AWS",
            values=[max(memory)],
            most=MOST_MEMORY_MB,
            form=".0f",
            unit=" MB",
        ),
    ]


def fields(result: Result) -> dict[str, Any]:
    loop, server = result["loop_rps"], result["server_rps"]
    measured = [
        [
            form,
            short(each["rps"]),
            f"{each['rps'] / loop:.1f}x",
            f"{each['rps'] / server:.2f}x",
            f"{each['seconds']:.0f} s",
        ]
        for form, each in result["forms"].items()
    ]
    return {
        "rates": table(("", "rows/s", "of a loop", "of the model server", "in all"), measured),
        "loop": short(loop),
        "server": short(server),
        "loop_rows": f"{LOOP_ROWS:,}",
        "count": f"{result['rows']:,}",
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS, help="of the table")
    sys.exit(main("batch", partial(measure, count=parser.parse_args().rows)))
