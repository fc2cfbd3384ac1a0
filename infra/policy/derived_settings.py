"""Derive the settings that the file omits, for the instance type, the model and the code.

Settings of the file stay as they are. Every choice has its reason, which `servable check --explain`
prints. If a measured number would be better than a rule, `servable tune` finds it. The targets and cooldowns
of Application Auto Scaling, and the limit of the requests that wait in one instance, are derived too.
"""

import math
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from infra.catalog.instances import Instance
from infra.policy import sizing
from infra.policy.container import Batching, ContainerSettings
from infra.policy.sizing import ModelSizes

Origin = Literal["file", "derived", "image"]

Chosen = dict[str, tuple[object, str]]
"""Setting to (value, reason); a value of None means the image's own default."""


Value = TypeVar("Value")


@dataclass(frozen=True)
class Choice(Generic[Value]):
    """The value of one setting, its origin and the reason."""

    name: str
    value: Value
    origin: Origin
    reason: str


def choose_setting(name: str, stated: Value | None, chosen: Value, reason: str) -> Choice[Value]:
    """Return the file's value, or `chosen` with its reason. None leaves the default."""
    if stated is not None:
        return Choice(name, stated, "file", "from the file")
    return Choice(name, chosen, "image" if chosen is None else "derived", reason)


@dataclass(frozen=True)
class DerivedSettings:
    settings: ContainerSettings
    choices: tuple[Choice[Any], ...]


def merge_settings(written: ContainerSettings, chosen: Chosen) -> DerivedSettings:
    """Merge the file's settings over the chosen ones, with a choice for every setting."""
    choices: list[Choice[Any]] = []
    for name in ContainerSettings.model_fields:
        value, reason = chosen.get(name, (None, "the image's default"))
        stated = getattr(written, name)
        if name == "batching" and stated != value:
            stated = None  # its omitted keys are derived
        choices.append(choose_setting(name, stated, value, reason))
    values = {choice.name: choice.value for choice in choices if choice.value is not None}
    return DerivedSettings(ContainerSettings.model_validate(values), tuple(choices))


# AWS measured: a retrieval model on 36 vCPUs was fastest with 8 processes of one thread and
# 36 workers (2026-11-21). https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
VCPUS_PER_PROCESS = 4
# The same source says that more processes help "while memory is below 10 %". Assumption: beyond half
# of the memory there is no room for a handler.
SERVERS_SHARE = 0.5
# Source: infra/catalog/documented_limits.json (answer_seconds). The image would kill a busy worker after 30.
LONGEST_ANSWER_SECONDS = 60
# Assumption: the estimate of loading is cautious already, so twice of it is a sufficient limit.
LOAD_SAFETY = 2


def derive_settings(
    written: ContainerSettings, *, instance: Instance, served: ModelSizes, tensorflow: str
) -> DerivedSettings:
    """Return the settings that are deployed, with their reasons.

    Settings in `written` take precedence. `tensorflow` is the image's version, for example 2.20.
    """
    chosen: Chosen = {
        "tfs_processes": (None, "multi-model mode starts one for each loaded model"),
        "gunicorn_workers": (None, "no effect: without code there is no Gunicorn"),
        "onednn": (None, "TensorFlow decides, because it knows its kernels; measure both"),
    }
    processes = workers = 1
    if not served.multi_model:
        number, reason = _choose_processes(instance, served)
        chosen["tfs_processes"] = (number, reason)
        processes = written.tfs_processes or number
    if served.has_code is not False:
        number, reason = _choose_workers(instance, served, processes)
        chosen["gunicorn_workers"] = (number, reason)
        workers = written.gunicorn_workers or number
        why = "InvokeEndpoint fails after 60 s; the image would kill a busy worker after 30"
        chosen["gunicorn_timeout_seconds"] = (LONGEST_ANSWER_SECONDS, why)
    chosen |= _choose_threads(instance, served, processes)
    chosen["batching"] = _choose_batching(written.batching, instance, processes, workers)
    chosen["wait_time_seconds"] = _choose_wait(served, processes, tensorflow)
    if instance.gpus and not served.multi_model:
        margin = sizing.compute_margin(instance, processes)
        why = "no effect with one process, which may use the whole GPU"
        if margin is not None:
            share = sizing.compute_gpu_share(processes, margin)
            why = f"the image divides it by all {processes} processes: each gets {share:.0%} of its GPU"
        chosen["gpu_memory_margin"] = (margin, why)
    return merge_settings(written, chosen)


def _choose_processes(instance: Instance, served: ModelSizes) -> tuple[int, str]:
    if instance.gpus > 1:
        return instance.gpus, f"one for each of {instance.gpus} GPUs: a process uses only its own"
    if instance.gpus == 1:
        return 1, "one GPU: a second process would halve its memory"
    by_cpu = max(1, instance.vcpus // VCPUS_PER_PROCESS)
    if served.server_gib is None:
        return 1, "the model's size is unknown: a second copy may not fit"
    by_memory = max(1, int(SERVERS_SHARE * instance.memory_gib / served.server_gib))
    if by_memory < by_cpu:
        half = f"over half of {instance.memory_gib:g} GiB"
        return by_memory, f"{served.server_gib:.1f} GiB each: more would need {half}"
    return by_cpu, f"one for each {VCPUS_PER_PROCESS} vCPUs, of which there are {instance.vcpus}"


def _choose_workers(instance: Instance, served: ModelSizes, processes: int) -> tuple[int, str]:
    room = (1 - sizing.SYSTEM_SHARE) * instance.memory_gib - processes * (served.server_gib or 0.0)
    by_memory = max(1, int(room / served.worker_gib))
    if by_memory < instance.vcpus:
        return by_memory, f"{served.worker_gib:.2g} GiB each: more do not fit next to the models"
    return instance.vcpus, f"one for each of {instance.vcpus} vCPUs, because a handler uses the CPU"


def _choose_threads(instance: Instance, served: ModelSizes, processes: int) -> Chosen:
    if instance.gpus or processes == 1:
        why = "the GPU computes" if instance.gpus else "the only process may use every vCPU"
        left_to_tensorflow = (None, f"TensorFlow decides: {why}")
        return {"inter_op_threads": left_to_tensorflow, "intra_op_threads": left_to_tensorflow}
    each = 1 if served.has_code is not False else max(1, instance.vcpus // processes)
    why = "the workers need the rest" if each == 1 else "nothing else runs"
    return {
        "inter_op_threads": (each, f"{processes} processes share {instance.vcpus} vCPUs; {why}"),
        "intra_op_threads": (1, "parallel between requests, not inside one"),
    }


def _choose_batching(
    written: Batching | None, instance: Instance, processes: int, workers: int
) -> tuple[Batching | None, str]:
    if written is None:
        return None, "off: it rejects requests with more rows than a batch; set max_batch_size"
    threads, queue = max(1, instance.vcpus // processes), max(instance.vcpus, workers)
    omitted = {
        "batch_threads": written.batch_threads or threads,
        "max_enqueued_batches": written.max_enqueued_batches or queue,
    }
    return written.model_copy(update=omitted), (
        f"{threads} batch threads: each process's share of {instance.vcpus} vCPUs; a queue of "
        f"{queue}: if it is full, the caller gets an error"
    )


def _choose_wait(served: ModelSizes, processes: int, tensorflow: str) -> tuple[int | None, str]:
    load = sizing.estimate_load_seconds(served, processes=processes)
    default = sizing.find_default_wait(tensorflow, processes=processes)
    real = sizing.find_real_wait(default, tensorflow)
    if load is None or LOAD_SAFETY * load <= real:
        return None, f"the image's default {default} s, of which it actually waits {real:.0f}"
    wait = sizing.find_wait_setting(LOAD_SAFETY * load, tensorflow)
    real = sizing.find_real_wait(wait, tensorflow)
    return wait, f"loading takes about {load:.0f} s; the image actually waits {real:.0f}"


# Application Auto Scaling's default cooldown for SageMaker (2026-11-21).
# https://docs.aws.amazon.com/autoscaling/application/APIReference/API_TargetTrackingScalingPolicyConfiguration.html
DEFAULT_COOLDOWN_SECONDS = 300
ROUNDED_TO_SECONDS = 30
# Steps have the evaluation periods of target tracking: quick to add, slow to remove (2026-11-21).
# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
STEP_MINUTES_ABOVE, STEP_MINUTES_BELOW = 3, 15


def compute_target_invocations(*, max_rps_per_instance: float, safety_factor: float) -> float:
    """Compute the target of SageMakerVariantInvocationsPerInstance, per minute.

    Source: target = maximum requests per second x safety factor x 60,
    https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html (2026-11-20)
    """
    # Rounded: a target of 1000 per minute is 16.666666666666668 per second.
    return round(max_rps_per_instance * safety_factor * 60, 9)


@dataclass(frozen=True, kw_only=True)
class Cooldowns:
    """Seconds to wait after a change before the next one in the same direction."""

    out_seconds: int
    in_seconds: int
    out_reason: str
    in_reason: str


def compute_cooldowns(
    *, out_seconds: int | None, in_seconds: int | None, start_seconds: float | None
) -> Cooldowns:
    """Compute the cooldowns that the file omits from the start time of an instance, if it is known."""
    out, why = out_seconds, "from the file"
    back, back_why = in_seconds, "from the file"
    if out is None and start_seconds is None:
        out = DEFAULT_COOLDOWN_SECONDS
        why = "Application Auto Scaling's default, because the start time is unknown"
    elif out is None:
        out = ROUNDED_TO_SECONDS * math.ceil((start_seconds or 0) / ROUNDED_TO_SECONDS)
        why = f"a new instance responds after about {start_seconds:.0f} s and relieves others only then"
    if back is None:
        back = 2 * out
        back_why = "twice the scale-out cooldown, because one instance too few fails requests"
    return Cooldowns(out_seconds=out, in_seconds=back, out_reason=why, in_reason=back_why)


# worker_processes auto and worker_connections 2048; a proxied request has two connections.
# https://github.com/aws/sagemaker-tensorflow-serving-container (nginx.conf.template, 2026-11-22)
NGINX_REQUESTS_PER_VCPU = 2048 // 2
# worker_connections and backlog, which the image leaves alone; a sync worker takes one at a time.
# https://docs.gunicorn.org/en/stable/settings.html#worker-connections (2026-11-22)
GUNICORN_REQUESTS_PER_WORKER = 1000
LISTEN_BACKLOG = 2048


def compute_queue_limit(
    settings: ContainerSettings, *, vcpus: int, workers: int, processes: int, rows: int
) -> int:
    """Compute how many requests, of `rows` each, may wait; without code, `workers` is 0."""
    accepted = limit = vcpus * NGINX_REQUESTS_PER_VCPU
    if workers:
        sync = settings.gunicorn_worker_class == "sync"
        accepted = min(accepted, workers * (1 if sync else GUNICORN_REQUESTS_PER_WORKER))
        limit = min(limit, accepted + LISTEN_BACKLOG)
    batching = settings.batching
    if batching is not None and batching.max_enqueued_batches is not None:
        # Each batch holds whole requests. A full queue is an error to the caller.
        each = max(1, batching.max_batch_size // rows)
        waiting = processes * batching.max_enqueued_batches * each
        limit = min(limit, waiting) if waiting < accepted else limit
    return limit
