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


@dataclass(frozen=True)
class Started:
    """What would run."""

    model_servers: list[list[str]]
    batching: dict[str, int] | None


def start(variables: Mapping[str, str], *, vcpus: int, gpus: int, has_code: bool) -> Started:
    """Raises ValueError or KeyError where the image's script does, and where nothing would serve."""

    def number(name: str, default: int) -> int:
        return int(variables.get(f"SAGEMAKER_{name}", default))

    def word(name: str, default: str, allowed: set[str]) -> None:
        found = variables.get(f"SAGEMAKER_{name}", default)
        if found not in allowed:
            raise ValueError(f"SAGEMAKER_{name} = {found}")

    def switch(name: str) -> bool:
        return {"true": True, "false": False}[variables.get(f"SAGEMAKER_{name}", "false").lower()]

    multi, batch = switch("MULTI_MODEL"), switch("TFS_ENABLE_BATCHING")
    count, _ = number("TFS_INSTANCE_COUNT", 1), number("TFS_WAIT_TIME_SECONDS", 60)
    low, high = map(int, variables.get("SAGEMAKER_SAFE_PORT_RANGE", "20000-29999").split("-"))
    if count == 0 or low + 2 * count > high:
        raise ValueError(f"{count} model servers have no upstream, or not enough ports")
    word("TFS_NGINX_LOGLEVEL", "error", NGINX_LEVELS)
    if has_code or multi:
        word("GUNICORN_WORKER_CLASS", "gevent", GUNICORN_CLASSES)
        word("GUNICORN_LOGLEVEL", "info", GUNICORN_LEVELS)
        number("GUNICORN_THREADS", 1)
        if number("GUNICORN_WORKERS", 1) == 0:
            raise ValueError("Gunicorn without a worker")
    number("GUNICORN_TIMEOUT_SECONDS", 30)
    margin = float(variables.get("SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", 0.2))
    share = round((1 - margin) / float(count), 4)
    servers = []
    for port in range(low, low + 2 * count, 2):
        command = ["tensorflow_model_server", f"--port={port}", f"--rest_api_port={port + 1}"]
        command += ["--enable_batching=true"] if batch else []
        for kind in ("intra", "inter"):
            threads = number(f"TFS_{kind.upper()}_OP_PARALLELISM", 0)
            command += [f"--tensorflow_{kind}_op_parallelism={threads}"] if threads else []
        if gpus and count > 1 and share:
            if share <= 0:
                raise ValueError("a share of GPU memory below nothing")
            command.append(f"--per_process_gpu_memory_fraction={share}")
        servers.append(command)
    if not batch:
        return Started(servers, None)
    batching = {
        "max_batch_size": number("TFS_MAX_BATCH_SIZE", 8),
        "batch_timeout_micros": number("TFS_BATCH_TIMEOUT_MICROS", 1000),
        "num_batch_threads": number("TFS_NUM_BATCH_THREADS", vcpus),
        "max_enqueued_batches": number("TFS_MAX_ENQUEUED_BATCHES", vcpus),
    }
    if min(value for key, value in batching.items() if key != "batch_timeout_micros") < 1:
        raise ValueError("batching parameters")
    return Started(servers, batching)
