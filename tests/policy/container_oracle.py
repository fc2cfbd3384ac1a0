"""What the image's start script does with its variables, written again from its public source.

Independent of infra/policy on purpose: it says what the container would accept.
Source: https://github.com/aws/sagemaker-tensorflow-serving-container
(docker/build_artifacts/sagemaker: serve.py, python_service.py, tfs_utils.py)
"""

from collections.abc import Mapping
from dataclasses import dataclass

GUNICORN_CLASSES = {"sync", "gevent", "gthread", "eventlet", "tornado"}
GUNICORN_LEVELS = {"debug", "info", "warning", "error", "critical"}
NGINX_LEVELS = {"debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"}


class HangsError(Exception):
    """The container neither serves nor ends."""


@dataclass(frozen=True)
class Started:
    """What would run."""

    model_servers: list[list[str]]
    gunicorn: list[str] | None
    batching: dict[str, int] | None
    wait_seconds: int


def start(
    variables: Mapping[str, str],
    *,
    vcpus: int,
    gpus: int,
    has_code: bool,
    port_range: str = "20000-29999",
) -> Started:
    """Raises ValueError or IndexError where the image's script does; `HangsError` where it hangs."""
    read = dict(variables)
    margin = float(read.get("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", 0.2))
    count = int(read.get("SAGEMAKER_TFS_INSTANCE_COUNT", 1))
    wait = int(read.get("SAGEMAKER_TFS_WAIT_TIME_SECONDS", 60))
    timeout = int(read.get("SAGEMAKER_GUNICORN_TIMEOUT_SECONDS", 30))
    multi = read.get("SAGEMAKER_MULTI_MODEL", "false").lower()
    if multi not in ("true", "false"):
        raise ValueError("SAGEMAKER_MULTI_MODEL")
    batch = read.get("SAGEMAKER_TFS_ENABLE_BATCHING", "false").lower()
    if batch not in ("true", "false"):
        raise ValueError("SAGEMAKER_TFS_ENABLE_BATCHING")
    ports = _ports(read.get("SAGEMAKER_SAFE_PORT_RANGE", port_range), count)
    if count == 0:
        raise HangsError("no upstream: NGINX refuses its configuration")
    if read.get("SAGEMAKER_TFS_NGINX_LOGLEVEL", "error") not in NGINX_LEVELS:
        raise HangsError("NGINX refuses its configuration")
    share = round((1 - margin) / float(count), 4)
    inter = read.get("SAGEMAKER_TFS_INTER_OP_PARALLELISM", 0)
    intra = read.get("SAGEMAKER_TFS_INTRA_OP_PARALLELISM", 0)
    servers = []
    for grpc, rest in ports:
        command = ["tensorflow_model_server", f"--port={grpc}", f"--rest_api_port={rest}"]
        command += ["--enable_batching=true"] if batch == "true" else []
        command += [f"--tensorflow_intra_op_parallelism={int(intra)}"] if intra else []
        command += [f"--tensorflow_inter_op_parallelism={int(inter)}"] if inter else []
        if gpus and count > 1 and share:
            if share <= 0:
                raise ValueError("a share of GPU memory below nothing")
            command.append(f"--per_process_gpu_memory_fraction={share}")
        servers.append(command)
    return Started(
        model_servers=servers,
        gunicorn=_gunicorn(read, timeout) if has_code or multi == "true" else None,
        batching=_batching(read, vcpus) if batch == "true" else None,
        wait_seconds=wait,
    )


def _ports(port_range: str, count: int) -> list[tuple[int, int]]:
    low, high = (int(part) for part in port_range.split("-"))
    if low + 2 * count > high:
        raise ValueError("not enough ports available in SAGEMAKER_SAFE_PORT_RANGE")
    return [(low + 2 * index, low + 2 * index + 1) for index in range(count)]


def _gunicorn(read: Mapping[str, str], timeout: int) -> list[str]:
    workers = int(read.get("SAGEMAKER_GUNICORN_WORKERS", 1))
    threads = int(read.get("SAGEMAKER_GUNICORN_THREADS", 1))
    kind = read.get("SAGEMAKER_GUNICORN_WORKER_CLASS", "gevent")
    level = read.get("SAGEMAKER_GUNICORN_LOGLEVEL", "info")
    if workers == 0:
        raise HangsError("Gunicorn without a worker")
    if kind not in GUNICORN_CLASSES:
        raise ValueError("SAGEMAKER_GUNICORN_WORKER_CLASS")
    if level not in GUNICORN_LEVELS:
        raise ValueError("SAGEMAKER_GUNICORN_LOGLEVEL")
    return [f"-k{kind}", f"--workers={workers}", f"--threads={threads}", f"--timeout={timeout}"]


def _batching(read: Mapping[str, str], vcpus: int) -> dict[str, int]:
    found = {
        "max_batch_size": int(read.get("SAGEMAKER_TFS_MAX_BATCH_SIZE", 8)),
        "batch_timeout_micros": int(read.get("SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS", 1000)),
        "num_batch_threads": int(read.get("SAGEMAKER_TFS_NUM_BATCH_THREADS", vcpus)),
        "max_enqueued_batches": int(read.get("SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES", vcpus)),
    }
    if min(found["max_batch_size"], found["num_batch_threads"], found["max_enqueued_batches"]) < 1:
        raise ValueError("batching parameters")
    return found
