"""The container's settings, and the environment variables that carry them.

A setting of None renders no variable, so that the image's default applies.
Source of names, defaults and accepted values: the image's public source,
https://github.com/aws/sagemaker-tensorflow-serving-container (docker/build_artifacts, 2026-11-22).
"""

import contextlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from infra.catalog import images

# No instance has so many of anything; a larger number is a typing mistake.
Positive = Annotated[int, Field(ge=1, le=1_000_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)]
Transport = Literal["auto", "rest", "grpc"]
WorkerClass = Literal["sync", "gevent", "gthread", "eventlet", "tornado"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
NginxLogLevel = Literal["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"]


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Batching(_Settings):
    """Server-side batching of TensorFlow Serving, which combines requests. The table switches it on."""

    max_batch_size: Count = 8
    """Rows in one batch. A request with more rows is answered with 400, so this is also the largest
    request; with 0 every request is. The image's default is 8."""
    timeout_micros: Annotated[int, Field(ge=0)] = 1000
    """Microseconds that a batch waits for more rows, which is latency added to a single request. The
    image's default is 1000."""
    batch_threads: Positive | None = None
    """Batches computed at the same time. Default: the number of vCPUs."""
    max_enqueued_batches: Positive | None = None
    """Batches that may wait; requests beyond them get an error. Default: the number of
    vCPUs."""


class ContainerSettings(_Settings):
    """Settings of the container. Omitted fields are chosen for the instance type and model."""

    tfs_processes: Positive | None = None
    """Model server processes. More of them help while CPU is above 30 % and memory below 10 %. The
    image's default is 1; 0 makes the container hang."""
    inter_op_threads: Count | None = None
    """Operations that one model server runs at the same time. Default, and 0: the number of vCPUs."""
    intra_op_threads: Count | None = None
    """Threads inside one operation. Default, and 0: the number of vCPUs."""
    batching: Batching | None = None
    """Server-side batching, which trades latency for throughput. Default: off, as in the image."""
    wait_time_seconds: Positive | None = None
    """Seconds that the container waits for a model to load, and for one request. The image's default is
    60."""
    gpu_memory_margin: float | None = None
    """Share of GPU memory that no model server takes; each takes (1 - margin) / tfs_processes. It is
    read only with several processes on a GPU. The image's default is 0.2."""
    gunicorn_workers: Count | None = None
    """Python processes that run inference.py. No effect without code. The image's default is 1; with code
    0 makes the container hang."""
    gunicorn_threads: Positive | None = None
    """Threads in one worker. No effect without code or with gevent. Up to TensorFlow 2.19
    multi-model mode uses gthread, whatever the worker class is. The image's default is 1."""
    gunicorn_worker_class: WorkerClass | None = None
    """sync for compute-bound code, gevent or gthread for code that waits. The image's default is
    gevent. Up to TensorFlow 2.19 multi-model mode uses gthread, regardless of this key."""
    gunicorn_timeout_seconds: Positive | None = None
    """Seconds after which a busy worker is killed. The image's default is 30."""
    gunicorn_log_level: LogLevel | None = None
    """Log level of Gunicorn. The image's default is info."""
    nginx_read_timeout_seconds: Positive | None = None
    """Seconds that NGINX waits for an answer; raised to the worker timeout if that is longer. The
    image's default is 60."""
    nginx_log_level: NginxLogLevel | None = None
    """Log level of NGINX. The image's default is error."""
    omp_threads: Count | None = None
    """OpenMP threads of every process. The image sets 1 by default; TensorFlow in images from 2.19 on
    does not read it. A list for nested regions ("4,2") is the variable OMP_NUM_THREADS."""
    onednn: bool | None = None
    """oneDNN kernels on or off; this changes float rounding. Default: TensorFlow decides."""
    transport: Transport | None = None
    """Transport from Servable's handler to the model server. auto, the default: JSON and CSV are relayed
    over REST, tensors and protobuf over gRPC. rest or grpc: everything goes that way."""
    grpc_from_bytes: Annotated[int, Field(ge=0)] | None = None
    """With transport auto, the handler parses JSON and CSV bodies from this size on, in bytes, and sends
    them over gRPC. Default: none. It is faster only if the code vendors orjson, and for bodies of
    megabytes (docs/performance.md)."""
    request_timeout_seconds: Positive | None = None
    """Seconds after which Servable's handler answers 504. Default: wait_time_seconds, which is also the
    time to load a model; a larger value has no effect."""
    timing_header: bool | None = None
    """Whether Servable's handler adds a Server-Timing header with the milliseconds of each stage.
    Default: false."""


# What the image does where a variable is omitted, as far as it depends on neither instance nor version.
IMAGE_DEFAULTS = ContainerSettings(
    tfs_processes=1,
    inter_op_threads=0,
    intra_op_threads=0,
    gunicorn_workers=1,
    gunicorn_timeout_seconds=30,
    gpu_memory_margin=0.2,
    batching=Batching(max_batch_size=8, timeout_micros=1000),
)

DEFAULT_MODEL_NAME = "SAGEMAKER_TFS_DEFAULT_MODEL_NAME"
BATCHING_SWITCH = "SAGEMAKER_TFS_ENABLE_BATCHING"
MULTI_MODEL_SWITCH = "SAGEMAKER_MULTI_MODEL"
_UNIVERSAL_CODE = "`code` of the model; the image would fetch code from S3 at every start"
UNSUPPORTED: Mapping[str, str] = {
    "SAGEMAKER_MULTI_MODEL_UNIVERSAL_BUCKET": _UNIVERSAL_CODE,
    "SAGEMAKER_MULTI_MODEL_UNIVERSAL_PREFIX": _UNIVERSAL_CODE,
    MULTI_MODEL_SWITCH: "`multi_model` of the model, for which SageMaker sets it",
    "SAGEMAKER_BATCH": "[batch.NAME], for which SageMaker sets it",
}
"""Variable that changes what the image serves, to what a file has for it."""


OPENMP_THREADS = "OMP_NUM_THREADS"
# The variable of images with Intel's TensorFlow; today's libtensorflow does not contain the name.
OLD_ONEDNN_SWITCH = "TF_DISABLE_MKL"
OLD_POOL_SWITCH = "TF_DISABLE_POOL_ALLOCATOR"


def find_worker_class(settings: ContainerSettings, tensorflow: str, *, multi_model: bool) -> str:
    """Return Gunicorn's worker class in the image of this version.

    Source: serve.py, https://github.com/aws/deep-learning-containers, read 2026-11-22: since 2.20
    in scripts/docker/tensorflow/inference/sagemaker, before in
    tensorflow/inference/docker/build_artifacts/sagemaker
    """
    if multi_model and not images.has_feature("rewritten_code", tensorflow):
        return "gthread"
    return settings.gunicorn_worker_class or "gevent"


def has_upstream_tensorflow(tensorflow: str) -> bool:
    """Return whether this version's image is known to contain TensorFlow as Google builds it."""
    return images.has_feature("upstream_binary", tensorflow)


def build_variables(
    settings: ContainerSettings, *, default_model: str | None, tensorflow: str | None = None
) -> dict[str, str]:
    """Return the container's variables, sorted by name.

    `default_model` serves requests that name no model. `tensorflow` is the image's version, for
    example 2.20, because older images have a different switch for oneDNN. None means the newest
    version.
    """
    texts = {variable: _format_setting(settings, key) for variable, key in SETTINGS.items()}
    variables = {variable: text for variable, text in texts.items() if text is not None}
    if default_model is not None:
        variables[DEFAULT_MODEL_NAME] = default_model
    if settings.onednn is False and tensorflow and not has_upstream_tensorflow(tensorflow):
        variables[OLD_ONEDNN_SWITCH] = "1"
    return dict(sorted(variables.items()))


def _format_setting(settings: ContainerSettings, key: str) -> str | None:
    """Return the text of a setting's variable, or None if the setting has none."""
    value: Any = settings
    for name in key.split("."):
        value = getattr(value, name, None)
    if isinstance(value, Batching):
        return "true"
    if isinstance(value, bool):
        return str(int(value))  # a switch is 1 or 0
    return None if value is None else str(value)


SETTINGS: Mapping[str, str] = {
    "SAGEMAKER_TFS_INSTANCE_COUNT": "tfs_processes",
    "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "inter_op_threads",
    "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "intra_op_threads",
    "SAGEMAKER_TFS_WAIT_TIME_SECONDS": "wait_time_seconds",
    "SAGEMAKER_TFS_FRACTIONAL_GPU_MEM_MARGIN": "gpu_memory_margin",
    "SAGEMAKER_GUNICORN_WORKERS": "gunicorn_workers",
    "SAGEMAKER_GUNICORN_THREADS": "gunicorn_threads",
    "SAGEMAKER_GUNICORN_WORKER_CLASS": "gunicorn_worker_class",
    "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "gunicorn_timeout_seconds",
    "SAGEMAKER_GUNICORN_LOGLEVEL": "gunicorn_log_level",
    "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS": "nginx_read_timeout_seconds",
    "SAGEMAKER_TFS_NGINX_LOGLEVEL": "nginx_log_level",
    "OMP_NUM_THREADS": "omp_threads",
    "TF_ENABLE_ONEDNN_OPTS": "onednn",
    # Read by our own handler, servable_handler/settings.py.
    "SERVABLE_TRANSPORT": "transport",
    "SERVABLE_GRPC_FROM_BYTES": "grpc_from_bytes",
    "SERVABLE_REQUEST_TIMEOUT_SECONDS": "request_timeout_seconds",
    "SERVABLE_TIMING_HEADER": "timing_header",
    BATCHING_SWITCH: "batching",
    "SAGEMAKER_TFS_MAX_BATCH_SIZE": "batching.max_batch_size",
    "SAGEMAKER_TFS_BATCH_TIMEOUT_MICROS": "batching.timeout_micros",
    "SAGEMAKER_TFS_NUM_BATCH_THREADS": "batching.batch_threads",
    "SAGEMAKER_TFS_MAX_ENQUEUED_BATCHES": "batching.max_enqueued_batches",
}
"""Variable to the dotted key of [variants.NAME.container] that says the same."""
_VARIABLE_OF = {setting: variable for variable, setting in SETTINGS.items()}
KEYLESS = (OLD_ONEDNN_SWITCH, OLD_POOL_SWITCH)
"""Variables that only images with Intel's TensorFlow read. They remain variables."""
_WORDS = ("gunicorn_worker_class", "gunicorn_log_level", "nginx_log_level", "transport")
_SWITCHES = ("onednn", "timing_header")


def find_setting(variable: str, value: str = "") -> str | None:
    """Return the key of [variants.NAME.container] that writes this variable's value, or None."""
    return None if variable == OPENMP_THREADS and "," in value else SETTINGS.get(variable)


def find_variable(setting: str) -> str | None:
    """Return the variable that a dotted key of [variants.NAME.container] writes, or None."""
    return _VARIABLE_OF.get(setting)


def split_environment(
    environment: Mapping[str, str], *, batching: bool = False
) -> tuple[dict[str, str], dict[str, Any]]:
    """Split an environment dict into (the user's own variables, dotted keys of [container]).

    `batching` states that a key enables batching. Without it, and without the switch variable,
    the image doesn't read the variables of batching, so they remain variables. A value that its
    key can't hold remains text, which the key's validation rejects.
    """
    own: dict[str, str] = {}
    settings: dict[str, Any] = {}
    batches = batching or environment.get(BATCHING_SWITCH, "").lower() == "true"
    for variable, value in environment.items():
        key = find_setting(variable, value)
        if key is None or (key.startswith("batching.") and not batches):
            own[variable] = value
        elif variable != BATCHING_SWITCH:
            settings[key] = _parse_value(key, value)
        elif value.lower() != "false":  # that is the image's default
            settings[key] = {} if batches else value
    return own, settings


def _parse_value(key: str, value: str) -> Any:
    """Parse a variable's text as the value of a dotted key, or return the text."""
    if key in _WORDS:
        return value
    if key in _SWITCHES:
        return {"1": True, "true": True, "0": False, "false": False}.get(value.lower(), value)
    for read in (int, float):
        with contextlib.suppress(ValueError):
            return read(value)
    return value


def explain_inert_variable(variable: str, value: str = "", *, tensorflow: str) -> str | None:
    """Explain why a variable has no effect in this version's image; None if it may have one."""
    if variable == "GUNICORN_CMD_ARGS":
        given = {word for word in re.split(r"[\s=]+", value) if word.startswith("-")}
        keys = [key for key, options in _OPTIONS_OF_GUNICORN.items() if options & given]
        passed = f"the image passes other options after these; use {', '.join(keys)}"
        # An option that the image does not pass has its effect, and so has the variable.
        return passed if given and given <= set().union(*_OPTIONS_OF_GUNICORN.values()) else None
    if variable in ContainerSettings.model_fields:
        return f"it is a key of `container`; write container.{variable} = {value}"
    if key := _OF_AN_ENDPOINT.get(variable.replace("_", "").lower().removesuffix("inseconds")):
        return f"no container reads it; use the key {key} of the variant"
    if has_upstream_tensorflow(tensorflow):
        if variable == OLD_ONEDNN_SWITCH:
            return f"TensorFlow {tensorflow} does not read it; use the key onednn"
        if variable == OLD_POOL_SWITCH:
            return f"TensorFlow {tensorflow} does not read it, and has no switch for it"
        if variable.startswith("KMP_"):  # what Intel's OpenMP reads
            return f"TensorFlow {tensorflow} has no OpenMP"
    if SETTINGS.get(variable, "").startswith("batching."):  # with the switch they are keys
        return f'without {BATCHING_SWITCH} = "true" the image does not read it'
    if variable.startswith(_OF_THE_IMAGE) and find_setting(variable) is None:
        return _INERT.get(variable, "the image reads no variable of this name")
    return _INERT.get(variable)


# serve.py starts Gunicorn with these, and its command line has the last word:
# https://docs.gunicorn.org/en/stable/configure.html (2026-11-24)
_OPTIONS_OF_GUNICORN = {
    "gunicorn_timeout_seconds": {"--timeout", "-t"},
    "gunicorn_workers": {"--workers", "-w"},
    "gunicorn_threads": {"--threads"},
    "gunicorn_worker_class": {"--worker-class", "-k"},
    "gunicorn_log_level": {"--log-level"},
}
# Fields of an endpoint's configuration, and arguments of the SDK's deploy(), in any spelling:
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html (2026-11-24)
_OF_AN_ENDPOINT = {
    "containerstartuphealthchecktimeout": "startup_timeout_seconds",
    "modeldatadownloadtimeout": "download_timeout_seconds",
    "volumesizeingb": "volume_gb",
    "initialinstancecount": "min_instances",
}
_OF_THE_IMAGE = ("SAGEMAKER_TFS_", "SAGEMAKER_GUNICORN_", "SAGEMAKER_NGINX_")
_OTHERS = "images of other frameworks read it; this one is set up by the keys of `container`"
_INERT = {
    "SAGEMAKER_TFS_VERSION": "the image does not read it; `tensorflow` of the model decides",
    "PYTHONPATH": "the image overwrites it; put modules into the code folder",
    DEFAULT_MODEL_NAME: "`model` of the variant decides",
    # What the SageMaker SDK and its inference toolkit set, which this image does not contain:
    # https://github.com/aws/sagemaker-inference-toolkit, environment.py and parameters.py (2026-11-24)
    "SAGEMAKER_PROGRAM": "the image always runs code/inference.py",
    "SAGEMAKER_SUBMIT_DIRECTORY": "the code is in the archive, in code/",
    "SAGEMAKER_REQUIREMENTS": "the image reads code/requirements.txt",
    "SAGEMAKER_CONTAINER_LOG_LEVEL": "use the keys gunicorn_log_level and nginx_log_level",
    "SAGEMAKER_MODEL_SERVER_WORKERS": "use the key gunicorn_workers",
    "SAGEMAKER_MODEL_SERVER_TIMEOUT": "use the key gunicorn_timeout_seconds",
    "MODEL_SERVER_WORKERS": "use the key gunicorn_workers",
    "MODEL_SERVER_TIMEOUT": "use the key gunicorn_timeout_seconds",
    "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT": _OTHERS,
    "SAGEMAKER_USE_NGINX": _OTHERS,
    "MMS_DEFAULT_RESPONSE_TIMEOUT": _OTHERS,
    "TS_MAX_REQUEST_SIZE": _OTHERS,
    "TS_MAX_RESPONSE_SIZE": _OTHERS,
    "TS_DEFAULT_RESPONSE_TIMEOUT": _OTHERS,
    "TS_DEFAULT_WORKERS_PER_MODEL": _OTHERS,
    "MODEL_BASE_PATH": "the image finds the models in /opt/ml/model itself",
    "WEB_CONCURRENCY": "the image passes gunicorn_workers to Gunicorn, which then does not read it",
    "SAGEMAKER_BIND_TO_PORT": "SageMaker sets it",
    "SAGEMAKER_SAFE_PORT_RANGE": "SageMaker sets it",
}
