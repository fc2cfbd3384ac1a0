"""The container's variables with every default filled in, as the image's start script does.

The table is this package's own, read from the image's public source and not from code
that renders variables; a test checks that what a deployment renders is accepted here.
Source: serve.py in https://github.com/aws/deep-learning-containers
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from servable_local.container.image_code import NEWEST, VERSION, find_image_code

PORT = "SAGEMAKER_BIND_TO_PORT"
MULTI_MODEL = "SAGEMAKER_MULTI_MODEL"
PORT_RANGE = "SAGEMAKER_SAFE_PORT_RANGE"
DEFAULT_MODEL_NAME = "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
OPENMP_THREADS = "OMP_NUM_THREADS"
WORKER_CLASS = "SAGEMAKER_GUNICORN_WORKER_CLASS"
WORKERS = "SAGEMAKER_GUNICORN_WORKERS"
THREADS = "SAGEMAKER_GUNICORN_THREADS"
WAIT = "SAGEMAKER_TFS_WAIT_TIME_SECONDS"
GUNICORN_TIMEOUT = "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS"
READ_TIMEOUT = "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS"
BATCH = "SAGEMAKER_BATCH"
_ENQUEUED = "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES"
# tfs_utils.py of the image, for a transform job: nothing else waits there.
_ENQUEUED_OF_A_JOB = "100000000"

# The packages that a worker class needs and that the image does not list either.
_NOT_IN_THE_IMAGE = ("eventlet", "tornado")


class SettingsError(Exception):
    """Variables that the container, or this endpoint, rejects. `str()` is a whole sentence."""


@dataclass(frozen=True, kw_only=True)
class BatchingPlan:
    """The batching of requests, with every number decided."""

    max_batch_size: int
    timeout_micros: int
    batch_threads: int
    max_enqueued_batches: int


@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """The start script's decisions. Op threads of 0 are left to TensorFlow."""

    tensorflow: str
    """The image's, as 2.20."""
    port: int
    """Port of the nginx stand-in; 0 means any free port."""
    port_range: tuple[int, int] | None
    default_model: str | None
    multi_model: bool
    model_servers: int
    inter_op_threads: int
    intra_op_threads: int
    batching: BatchingPlan | None
    wait_seconds: int
    workers: int
    threads: int
    worker_class: str
    gunicorn_timeout_seconds: int
    gunicorn_log_level: str
    read_timeout_seconds: int

    @property
    def load_wait_seconds(self) -> float:
        """Return the actual time for which the start script waits for a closed port."""
        return find_image_code(self.tensorflow).compute_real_wait_seconds(self.wait_seconds)


def read_settings(variables: Mapping[str, str], *, gunicorn: bool = True) -> StartSettings:
    """Read the settings. Raises `SettingsError` for those that the image rejects or hangs on.

    `gunicorn`: False for an archive without code, for which Gunicorn's variables aren't checked.
    """
    gunicorn = gunicorn or variables.get(MULTI_MODEL, "").lower() == "true"
    fields = _read_fields(variables if gunicorn else {}, _OF_GUNICORN)
    fields |= _read_fields(variables, _VARIABLES)
    if (name := fields["worker_class"]) in _NOT_IN_THE_IMAGE:
        raise SettingsError(
            f"{WORKER_CLASS}={name} requires the package {name}, "
            "which isn't in the image or on this computer; allowed: sync, gevent, gthread"
        )
    waiting = {_ENQUEUED: _ENQUEUED_OF_A_JOB} if BATCH in variables else {}
    batching = None
    if fields.pop("batching"):
        batching = BatchingPlan(**_read_fields({**waiting, **variables}, _BATCHING))
    del fields["gpu_memory_margin"], fields["nginx_log_level"]  # they were read to be checked
    seconds = max(fields["read_timeout_seconds"], fields["gunicorn_timeout_seconds"])
    fields["read_timeout_seconds"] = seconds
    if seconds < 1:
        raise SettingsError(
            f"{READ_TIMEOUT} and {GUNICORN_TIMEOUT} are both 0, so NGINX would wait for no response; "
            "set at least one of them to 1 or more"
        )
    port = variables.get(PORT, "0")
    if not port.isdecimal() or int(port) > 65535:
        raise SettingsError(f"{PORT}: {port!r} is not accepted; allowed: a port from 0 to 65535")
    tensorflow = variables.get(VERSION, NEWEST)
    if fields["multi_model"] and not find_image_code(tensorflow).rewritten:
        fields["worker_class"] = "gthread"
    if fields["wait_seconds"] is None:
        image = find_image_code(tensorflow)
        fields["wait_seconds"] = image.compute_wait_seconds(fields["model_servers"])
    default_model = variables.get(DEFAULT_MODEL_NAME)
    return StartSettings(
        tensorflow=tensorflow,
        port=int(port),
        port_range=_read_port_range(variables, fields["model_servers"]),
        default_model=None if default_model == "None" else default_model,  # the image's default
        batching=batching,
        **fields,
    )


def build_batch_variables(request: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables that SageMaker adds for a CreateTransformJob request.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-batch-code.html
    """
    variables = {BATCH: "true"}
    if "BatchStrategy" in request:
        single = request["BatchStrategy"] == "SingleRecord"
        variables["SAGEMAKER_BATCH_STRATEGY"] = "SINGLE_RECORD" if single else "MULTI_RECORD"
    for name, key in (
        ("SAGEMAKER_MAX_PAYLOAD_IN_MB", "MaxPayloadInMB"),
        ("SAGEMAKER_MAX_CONCURRENT_TRANSFORMS", "MaxConcurrentTransforms"),
    ):
        if key in request:
            variables[name] = str(request[key])
    return variables


def list_unused_variables(variables: Mapping[str, str], *, gunicorn: bool) -> list[str]:
    """Return the container's variables that are set and have no effect here, sorted."""
    settings = read_settings(variables, gunicorn=gunicorn)
    # No GPU here, and NGINX's own log.
    inert = {"SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN", "SAGEMAKER_TFS_NGINX_LOGLEVEL"}
    if settings.batching is None:
        inert |= _BATCHING.keys()
    if not gunicorn:
        inert |= {name for name in variables if name.startswith("SAGEMAKER_GUNICORN_")}
    elif settings.worker_class == "gevent":
        inert.add(THREADS)
    return sorted(inert & variables.keys())


def is_container_variable(name: str) -> bool:
    """Return whether `name` configures the container or our handler in it."""
    return name.startswith(("SAGEMAKER_", "SERVABLE_")) or name in KEYS


def _read_port_range(variables: Mapping[str, str], count: int) -> tuple[int, int] | None:
    """Return the range of the ports of `count` model servers, or None. Raises `SettingsError`."""
    text = variables.get(PORT_RANGE)
    if text is None:
        return None
    low, high = -1, -1
    with contextlib.suppress(ValueError):
        low, high, *_ = map(int, text.split("-")[:2])  # as in the image, whatever follows
    if not 0 <= low <= 65535 >= high:
        raise SettingsError(f"{PORT_RANGE}: {text!r} is not accepted; allowed: LOW-HIGH")
    # As the image counts: the range must be one longer than what is used of it.
    if low + 2 * count > high:
        raise SettingsError(
            f"{PORT_RANGE}: {text!r} has too few ports for {count} model servers; "
            f"allowed: {low}-{low + 2 * count} or longer"
        )
    return low, high


# How a value is read, which raises ValueError for what is not accepted; and what is allowed.
_Form = tuple[Callable[[str], Any], str]
# variable -> (field, the image's default, form)
_Table = dict[str, tuple[str, Any, _Form]]


def _read_fields(variables: Mapping[str, str], table: _Table) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for variable, (field, default, (read, allowed)) in table.items():
        try:
            fields[field] = read(variables[variable]) if variable in variables else default
        except ValueError:
            raise SettingsError(
                f"{variable}: {variables[variable]!r} is not accepted; allowed: {allowed}"
            ) from None
    return fields


def _build_number_form(at_least: int) -> _Form:
    def read(text: str) -> int:
        number = int(text)
        if number < at_least:
            raise ValueError
        return number

    return read, f"an integer of at least {at_least}"


def _build_choice_form(*words: str) -> _Form:
    return lambda text: words[words.index(text.strip())], ", ".join(filter(None, words))


def _parse_word(text: str) -> str:
    """Parse a word of Gunicorn's command line, which the image splits at spaces."""
    (word,) = text.split()
    return word


def _parse_op_threads(text: str) -> int:
    """Parse a flag of the model server, which takes no spaces; an empty text is no flag."""
    if text and not text.removeprefix("-").isdecimal():
        raise ValueError
    return int(text or 0)


_SWITCH: _Form = (lambda text: ("false", "true").index(text.lower()) == 1, "true or false")
_NUMBER = (int, "a whole number")
_OP_THREADS: _Form = (_parse_op_threads, "a whole number")
_LEVEL = _build_choice_form(
    "debug", "info", "notice", "warn", "error", "crit", "alert", "emerg", ""
)
_CLASS = _build_choice_form("sync", "gevent", "gthread", *_NOT_IN_THE_IMAGE)
_VARIABLES: _Table = {
    MULTI_MODEL: ("multi_model", False, _SWITCH),
    "SAGEMAKER_TFS_INSTANCE_COUNT": ("model_servers", 1, _build_number_form(1)),
    "SAGEMAKER_TFS_INTER_OP_PARALLELISM": ("inter_op_threads", 0, _OP_THREADS),
    "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": ("intra_op_threads", 0, _OP_THREADS),
    "SAGEMAKER_TFS_ENABLE_BATCHING": ("batching", False, _SWITCH),
    WAIT: ("wait_seconds", None, _build_number_form(1)),
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": ("gpu_memory_margin", 0.2, (float, "a number")),
    GUNICORN_TIMEOUT: ("gunicorn_timeout_seconds", 30, _NUMBER),
    READ_TIMEOUT: ("read_timeout_seconds", 60, _NUMBER),
    "SAGEMAKER_TFS_NGINX_LOGLEVEL": ("nginx_log_level", "error", _LEVEL),
}
_OF_GUNICORN: _Table = {
    WORKERS: ("workers", 1, _build_number_form(0)),
    THREADS: ("threads", 1, _build_number_form(0)),
    WORKER_CLASS: ("worker_class", "gevent", _CLASS),
    GUNICORN_TIMEOUT: ("gunicorn_timeout_seconds", 30, _build_number_form(1)),
    "SAGEMAKER_GUNICORN_LOGLEVEL": ("gunicorn_log_level", "info", (_parse_word, "a word")),
}
_CPUS = os.cpu_count() or 1
_BATCHING: _Table = {
    "SAGEMAKER_TFS_MAX_BATCH_SIZE": ("max_batch_size", 8, _build_number_form(0)),
    "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": ("timeout_micros", 1000, _build_number_form(0)),
    "SAGEMAKER_TFS_NUM_BATCH_THREADS": ("batch_threads", _CPUS, _build_number_form(1)),
    _ENQUEUED: ("max_enqueued_batches", _CPUS, _build_number_form(1)),
}
KEYS: Mapping[str, str] = {
    **{
        name: field
        for name, (field, *_) in (_VARIABLES | _OF_GUNICORN).items()
        if name != MULTI_MODEL
    },
    **{variable: f"batching.{field}" for variable, (field, *_) in _BATCHING.items()},
    "SAGEMAKER_TFS_INSTANCE_COUNT": "tfs_processes",
    WAIT: "wait_time_seconds",
    READ_TIMEOUT: "nginx_read_timeout_seconds",
    WORKERS: "gunicorn_workers",
    THREADS: "gunicorn_threads",
    WORKER_CLASS: "gunicorn_worker_class",
    OPENMP_THREADS: "omp_threads",
    "TF_ENABLE_ONEDNN_OPTS": "onednn",
    "SERVABLE_TRANSPORT": "transport",
    "SERVABLE_GRPC_FROM_BYTES": "grpc_from_bytes",
    "SERVABLE_REQUEST_TIMEOUT_SECONDS": "request_timeout_seconds",
    "SERVABLE_TIMING_HEADER": "timing_header",
}
"""Variable to the key of an environment file that writes it, for the log."""
