"""Compares a transform job of the local AWS with a loop over InvokeEndpoint."""

import json
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks import endpoints
from benchmarks.frame import Log, Result, divide
from infra.policy.container import ContainerSettings, build_variables
from servable_local.aws import LocalAws, running
from servable_tensors.tensors import Array

TITLE = "Batch"
CLAIMS = False
TEXT = """\
A table of 1,000,000 rows of eight numbers in four objects, scored by a transform job of the local AWS: two
requests of 1 MB at a time. Every result has to be the exact sum of its row, in order. The loop invokes an
endpoint of the same model for one row after the other.
"""
CSV, JSON_LINES = "text/csv", "application/jsonlines"
JOBS = (CSV, JSON_LINES)
LOOP = "loop over InvokeEndpoint"
BOUNDS = {
    **{f"{job} / {LOOP}": (50.0, float("inf")) for job in JOBS},
    "memory of the local AWS, after a job / before": (0.0, 3.0),
}
COUNT, COLUMNS, OBJECTS, CONCURRENT = 1_000_000, 8, 4, 2
LOOP_ROWS = 2_000
NAME, BUCKET, POLL_SECONDS = "sum", "tables", 0.2
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:2.20-cpu"
INSTANCE = "ml.c5.xlarge"
VARIABLES = build_variables(
    ContainerSettings(gunicorn_workers=CONCURRENT, gunicorn_timeout_seconds=600), default_model=NAME
)


def measure(folder: Path, log: Log) -> Result:
    """Run the jobs and the loop."""
    models = {NAME: endpoints.export_model(folder / "model")}
    archive = endpoints.pack(folder / "model.tar.gz", models, handler=True)
    # Sixteenths below 64: float32 holds their sums exactly, whatever the order of adding.
    rows = (np.random.default_rng(0).integers(0, 1024, (COUNT, COLUMNS)) / 16).astype(np.float32)
    rates: dict[str, float] = {}
    memory: dict[str, float] = {}
    with running() as aws:
        create_resources(aws, archive)
        before = psutil.Process(aws.pid).memory_info().rss / 1e6
        for job in JOBS:
            rates[job] = run_job(aws, rows, job)
            memory[job] = psutil.Process(aws.pid).memory_info().rss / 1e6
            log(f"{job}: {rates[job]:.0f} rows/s")
        rates[LOOP] = run_loop(aws, rows)
    ratios = [divide([rates[job]], [rates[LOOP]]) for job in JOBS]
    ratios.append(divide([max(memory.values())], [before]))
    table = {way: {"rows/s": [float(round(rate))]} for way, rate in rates.items()}
    for job, used in memory.items():
        table[job]["memory of the local AWS, MB"] = [float(round(used))]
    return {"table": table, "ratios": dict(zip(BOUNDS, ratios, strict=True))}


def format_lines(rows: Array, content_type: str) -> bytes:
    """Return the rows as lines of numbers."""
    begin, end = ("[", "]\n") if content_type == JSON_LINES else ("", "\n")
    return "".join(f"{begin}{','.join(map(repr, row))}{end}" for row in rows.tolist()).encode()


def create_resources(aws: LocalAws, archive: Path) -> None:
    """Create the bucket, the role, and the model."""
    s3 = aws.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    s3.upload_file(str(archive), BUCKET, "model.tar.gz")
    principal = {"Service": "sagemaker.amazonaws.com"}
    trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = aws.client("iam").create_role(RoleName="role", AssumeRolePolicyDocument=policy)
    container = {"Image": IMAGE, "ModelDataUrl": f"s3://{BUCKET}/model.tar.gz"}
    aws.client("sagemaker").create_model(
        ModelName=NAME,
        ExecutionRoleArn=role["Role"]["Arn"],
        PrimaryContainer=container | {"Environment": VARIABLES},
    )


def run_job(aws: LocalAws, rows: Array, content_type: str) -> float:
    """Run the job; return rows per second. Raises RuntimeError if it fails or a result is wrong."""
    s3, sagemaker, name = aws.client("s3"), aws.client("sagemaker"), content_type.partition("/")[2]
    parts = np.array_split(rows, OBJECTS)
    for number, part in enumerate(parts):
        body = format_lines(part, content_type)
        s3.put_object(Bucket=BUCKET, Key=f"{name}/{number}", Body=body)
    source = {"S3DataType": "S3Prefix", "S3Uri": f"s3://{BUCKET}/{name}/"}
    output = {"S3OutputPath": f"s3://{BUCKET}/{name}-out", "AssembleWith": "Line"}
    sagemaker.create_transform_job(
        TransformJobName=name,
        ModelName=NAME,
        MaxPayloadInMB=1,
        MaxConcurrentTransforms=CONCURRENT,
        BatchStrategy="MultiRecord",
        TransformInput={
            "DataSource": {"S3DataSource": source}, "ContentType": content_type, "SplitType": "Line"
        },
        TransformOutput=output | {"Accept": content_type},
        TransformResources={"InstanceType": INSTANCE, "InstanceCount": 1},
    )  # fmt: skip
    job = sagemaker.describe_transform_job(TransformJobName=name)
    while job["TransformJobStatus"] == "InProgress":
        time.sleep(POLL_SECONDS)
        job = sagemaker.describe_transform_job(TransformJobName=name)
    if job["TransformJobStatus"] != "Completed":
        raise RuntimeError(f"the job {name} failed: {job.get('FailureReason')}")
    for number, part in enumerate(parts):
        body = s3.get_object(Bucket=BUCKET, Key=f"{name}-out/{number}.out")["Body"].read()
        if not np.array_equal(np.array(body.split(), np.float32), part.sum(axis=1)):
            raise RuntimeError(f"{name}-out/{number}.out: a result isn't the sum of its row")
    return len(rows) / float((job["TransformEndTime"] - job["TransformStartTime"]).total_seconds())


def run_loop(aws: LocalAws, rows: Array) -> float:
    """Return rows per second of a loop that sends one row at a time."""
    sagemaker, runtime = aws.client("sagemaker"), aws.client("sagemaker-runtime")
    variant = {"VariantName": "all", "ModelName": NAME, "InstanceType": INSTANCE}
    sagemaker.create_endpoint_config(
        EndpointConfigName=NAME, ProductionVariants=[variant | {"InitialInstanceCount": 1}]
    )
    sagemaker.create_endpoint(EndpointName=NAME, EndpointConfigName=NAME)
    waiter = {"Delay": 1, "MaxAttempts": 100}
    sagemaker.get_waiter("endpoint_in_service").wait(EndpointName=NAME, WaiterConfig=waiter)
    lines = format_lines(rows[:LOOP_ROWS], CSV).splitlines()
    start = time.perf_counter()
    for line in lines:
        answer = runtime.invoke_endpoint(EndpointName=NAME, Body=line, ContentType=CSV, Accept=CSV)
        answer["Body"].read()
    return len(lines) / (time.perf_counter() - start)
