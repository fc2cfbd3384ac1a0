"""The container's variables with every default filled in, as the image's start script does."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from infra.policy.container import (
    DEFAULT_MODEL_NAME,
    MULTI_MODEL_SWITCH,
    ContainerSettings,
    VariableError,
    settings_of,
)
from infra.policy.wait_time import DEFAULT_SECONDS, real_wait_seconds
from servable_local.container.model_server.plan import Batching
from servable_local.container.port_settings import SettingsError, port_of, range_of

OPENMP_THREADS = "OMP_NUM_THREADS"
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
WORKER_CLASS = "SAGEMAKER_GUNICORN_WORKER_CLASS"

# The packages that a worker class needs and that the image does not list either.
_NOT_IN_THE_IMAGE = ("eventlet", "tornado")


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
        """How long the image's start script in truth waits for a port that is closed."""
        return real_wait_seconds(self.wait_seconds)


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
        port=port_of(variables),
        port_range=range_of(variables, count),
        default_model=variables.get(DEFAULT_MODEL_NAME) or None,
        multi_model=switch.lower() == "true",
        model_servers=count,
        inter_op_threads=given.inter_op_threads or 0,
        intra_op_threads=given.intra_op_threads or 0,
        batching=_batching(given),
        wait_seconds=given.wait_time_seconds or DEFAULT_SECONDS,
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


def is_container_variable(name: str) -> bool:
    """Whether `name` configures the container or our handler in it."""
    return name.startswith(("SAGEMAKER_", "SERVABLE_")) or name in (OPENMP_THREADS, ONEDNN)
