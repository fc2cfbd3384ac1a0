"""The container's variables with every default filled in, as the image's start script does."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from infra.policy.container import (
    DEFAULT_MODEL_NAME,
    MULTI_MODEL_SWITCH,
    VariableError,
    settings_of,
)
from infra.policy.container_settings import ContainerSettings
from local.endpoint.model_server.plan import Batching

OPENMP_THREADS = "OMP_NUM_THREADS"
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
PORT = "SAGEMAKER_BIND_TO_PORT"
PORT_RANGE = "SAGEMAKER_SAFE_PORT_RANGE"
WORKER_CLASS = "SAGEMAKER_GUNICORN_WORKER_CLASS"

# No GPU here; NGINX's own log, and a variable that the image itself ignores.
_WITHOUT_EFFECT = {
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN",
    "SAGEMAKER_TFS_NGINX_LOGLEVEL",
    "SAGEMAKER_TFS_VERSION",
}
_OF_GUNICORN = "SAGEMAKER_GUNICORN_"
_THREADS = "SAGEMAKER_GUNICORN_THREADS"
# The packages that a worker class needs and that the image does not list either.
_NOT_IN_THE_IMAGE = ("eventlet", "tornado")


class SettingsError(Exception):
    """Variables that the container, or this endpoint, does not take. A whole sentence."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the start script has decided. Op threads of 0 are left to TensorFlow."""

    port: int
    """Of the front; 0 is any free one."""
    port_range: tuple[int, int] | None
    default_model: str | None
    multi_model: bool
    model_servers: int
    inter_op_threads: int
    intra_op_threads: int
    batching: Batching | None
    wait_seconds: int
    workers: int
    threads: int
    worker_class: str
    gunicorn_timeout_seconds: int
    gunicorn_log_level: str
    read_timeout_seconds: int

    @property
    def load_wait_seconds(self) -> float:
        """How long the image's start script in truth waits for a port that is closed.

        It tries again after 0.2, 0.4, 0.8 s and so on, as often as fits into the wait time:
        60 gives 51 s, 300 gives 204.6 s.
        """
        tries = 0
        while 0.2 * float(2 ** (tries + 1) - 1) <= self.wait_seconds:
            tries += 1
        return 0.2 * float(2**tries - 1)


def read_settings(variables: Mapping[str, str]) -> Settings:
    """Raises `SettingsError` for what the image refuses or hangs on."""
    switch = variables.get(MULTI_MODEL_SWITCH, "false")
    if switch.lower() not in ("true", "false"):
        raise SettingsError(
            f"{MULTI_MODEL_SWITCH}: {switch!r} is not accepted; allowed: true or false"
        )
    try:
        given = settings_of(variables)
    except VariableError as error:
        raise SettingsError(str(error)) from None
    count = given.tfs_processes or 1
    worker_class = "gthread" if switch.lower() == "true" else given.gunicorn_worker_class
    if worker_class in _NOT_IN_THE_IMAGE:
        raise SettingsError(
            f"{WORKER_CLASS}={worker_class}: needs the package {worker_class}, which neither the "
            "image nor this machine has; allowed here: sync, gevent, gthread"
        )
    timeout_seconds = given.gunicorn_timeout_seconds or 30
    return Settings(
        port=_port(variables),
        port_range=_range(variables, count),
        default_model=variables.get(DEFAULT_MODEL_NAME) or None,
        multi_model=switch.lower() == "true",
        model_servers=count,
        inter_op_threads=given.inter_op_threads or 0,
        intra_op_threads=given.intra_op_threads or 0,
        batching=_batching(given),
        wait_seconds=given.wait_time_seconds or 60,
        workers=given.gunicorn_workers or 1,
        threads=given.gunicorn_threads or 1,
        worker_class=worker_class or "gevent",
        gunicorn_timeout_seconds=timeout_seconds,
        gunicorn_log_level=given.gunicorn_log_level or "info",
        read_timeout_seconds=max(given.nginx_read_timeout_seconds or 60, timeout_seconds),
    )


def _batching(given: ContainerSettings) -> Batching | None:
    if given.batching is None:
        return None
    cpus = os.cpu_count() or 1
    return Batching(
        max_batch_size=given.batching.max_batch_size,
        timeout_micros=given.batching.timeout_micros,
        batch_threads=given.batching.batch_threads or cpus,
        max_enqueued_batches=given.batching.max_enqueued_batches or cpus,
    )


def _port(variables: Mapping[str, str]) -> int:
    text = variables.get(PORT, "0")
    if not text.isdecimal() or int(text) > 65535:
        raise SettingsError(f"{PORT}: {text!r} is not accepted; allowed: a port up to 65535")
    return int(text)


def _range(variables: Mapping[str, str], count: int) -> tuple[int, int] | None:
    text = variables.get(PORT_RANGE)
    if text is None:
        return None
    parts = text.split("-")
    if len(parts) != 2 or not all(part.isdecimal() and int(part) <= 65535 for part in parts):
        raise SettingsError(f"{PORT_RANGE}: {text!r} is not accepted; allowed: LOW-HIGH")
    low, high = map(int, parts)
    # As the image counts: the range must be one longer than what is used of it.
    if low + 2 * count > high:
        raise SettingsError(
            f"{PORT_RANGE}: {text!r} has too few ports for {count} model servers; "
            f"allowed: {low}-{low + 2 * count} or longer"
        )
    return low, high


def is_container_variable(name: str) -> bool:
    """Whether `name` configures the container rather than the code in it."""
    return name.startswith("SAGEMAKER_") or name in (OPENMP_THREADS, ONEDNN)


def without_effect(variables: Mapping[str, str], *, gunicorn: bool) -> list[str]:
    """The container's variables that are set here and change nothing, sorted."""
    settings = read_settings(variables)
    inert = set(_WITHOUT_EFFECT)
    if settings.batching is None:
        inert |= {
            "SAGEMAKER_TFS_MAX_BATCH_SIZE",
            "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS",
            "SAGEMAKER_TFS_NUM_BATCH_THREADS",
            "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES",
        }
    if not gunicorn:
        inert |= {name for name in variables if name.startswith(_OF_GUNICORN)}
    elif settings.worker_class == "gevent":
        inert.add(_THREADS)
    return sorted(inert & variables.keys())
