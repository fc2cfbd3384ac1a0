"""How the container divides its machine, in the field's words.

A setting left at None renders no variable: the image's own default then applies.
Source of names, defaults and accepted values: the image's public source,
https://github.com/aws/sagemaker-tensorflow-serving-container (docker/build_artifacts).
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

# No machine has so many of anything; more is a slip of the hand.
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Transport = Literal["auto", "rest", "grpc"]
WorkerClass = Literal["sync", "gevent", "gthread", "eventlet", "tornado"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
NginxLogLevel = Literal["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Batching(_Settings):
    """TensorFlow Serving collects requests into one batch. Present means switched on."""

    max_batch_size: Positive = Field(
        default=8,
        description="Rows in one batch. A request with more rows is answered 400, so this is also "
        "the largest request. The image's default is 8.",
    )
    timeout_micros: Annotated[int, Field(ge=0)] = Field(
        default=1000,
        description="Microseconds a batch waits for more rows: latency added to a lone request. "
        "The image's default is 1000.",
    )
    batch_threads: Positive | None = Field(
        default=None,
        description="Batches computed at once. Left out, the image uses the number of vCPUs.",
    )
    max_enqueued_batches: Positive | None = Field(
        default=None,
        description="Batches waiting; one more is an error to its caller. "
        "Left out, the image uses the number of vCPUs.",
    )


class ContainerSettings(_Settings):
    """How the container divides its machine. A field left out is chosen for the machine, or the image's."""

    tfs_processes: Positive | None = Field(
        default=None,
        description="Model server processes. More of them help while CPU is above 30 % and memory "
        "below 10 %. The image's default is 1; 0 makes the container hang.",
    )
    inter_op_threads: Positive | None = Field(
        default=None,
        description="Operations one model server runs at once. Left out, TensorFlow uses the "
        "number of vCPUs.",
    )
    intra_op_threads: Positive | None = Field(
        default=None,
        description="Threads inside one operation. Left out, TensorFlow uses the number of vCPUs.",
    )
    batching: Batching | None = Field(
        default=None,
        description="Server-side batching: throughput for latency. Left out, it is off, as in the image.",
    )
    wait_time_seconds: Positive | None = Field(
        default=None,
        description="Seconds the container waits for a model to load, and for one request. "
        "The image's default is 60.",
    )
    gpu_memory_margin: Annotated[float, Field(lt=1)] | None = Field(
        default=None,
        description="Share of GPU memory that no model server takes; each takes "
        "(1 - margin) / tfs_processes. Only read with several processes on a GPU. "
        "The image's default is 0.2.",
    )
    gunicorn_workers: Positive | None = Field(
        default=None,
        description="Python processes that run inference.py. Inert without code. "
        "The image's default is 1; 0 makes the container hang.",
    )
    gunicorn_threads: Positive | None = Field(
        default=None,
        description="Threads in one worker. Inert without code, and inert with gevent, which "
        "multi-model mode does not use. The image's default is 1.",
    )
    gunicorn_worker_class: WorkerClass | None = Field(
        default=None,
        description="sync for compute-bound code, gevent or gthread for code that waits. "
        "The image's default is gevent.",
    )
    gunicorn_timeout_seconds: Positive | None = Field(
        default=None,
        description="Seconds after which a busy worker is killed. The image's default is 30.",
    )
    gunicorn_log_level: LogLevel | None = Field(
        default=None, description="The image's default is info."
    )
    nginx_read_timeout_seconds: Positive | None = Field(
        default=None,
        description="Seconds NGINX waits for an answer; raised to the worker timeout where that is "
        "longer. The image's default is 60.",
    )
    nginx_log_level: NginxLogLevel | None = Field(
        default=None, description="The image's default is error."
    )
    omp_threads: Positive | None = Field(
        default=None,
        description="OpenMP threads of every process. The image sets 1 when it is left out; images "
        "from 2.19 on hold a TensorFlow that does not read it.",
    )
    onednn: bool | None = Field(
        default=None,
        description="oneDNN kernels on or off; changes float rounding. Left out, TensorFlow decides.",
    )
    transport: Transport | None = Field(
        default=None,
        description="How Servable's handler asks the model server. auto, its default: JSON and CSV "
        "are relayed over REST, tensors and protobuf go over gRPC. rest or grpc: everything does.",
    )
    grpc_from_bytes: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="With transport auto, JSON and CSV bodies from this size on are parsed by the "
        "handler and go over gRPC. Left out, none are: it pays only where the code brings orjson "
        "along, and for bodies of megabytes (docs/performance.md).",
    )
    request_timeout_seconds: Positive | None = Field(
        default=None,
        description="Seconds after which Servable's handler answers 504. Left out, wait_time_seconds "
        "counts, which is the time to load a model as well; a later one has no effect.",
    )
    timing_header: bool | None = Field(
        default=None,
        description="Servable's handler answers with a Server-Timing header: milliseconds of each "
        "stage. Left out, it does not.",
    )
