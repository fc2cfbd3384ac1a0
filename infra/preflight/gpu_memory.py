"""The memory of the GPUs, and how the image divides it."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.policy.gpu_memory import (
    WEIGHTS_SHARE,
    margin_for,
    process_gib,
    processes_per_gpu,
    share_of_gpu,
)
from infra.preflight.counted import counted
from infra.preflight.example import artifact
from infra.preflight.placement import Placement
from infra.preflight.rule import VariantRule

# Less than half of what is paid for is no choice that somebody made.
LEAST_USED_SHARE = 0.5


class GpuShare(VariantRule):
    """The image divides by all processes although each has a GPU, or a part of one, to itself.

    With its default margin four processes on four GPUs use a fifth of each.
    Source: serve.py of the image, _calculate_per_process_gpu_memory_fraction,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    id = "gpu-share"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
variants.primary.instance_type = "ml.g4dn.12xlarge"
variants.primary.container.gpu_memory_margin = 0.2"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        margin = placement.variant.container.gpu_memory_margin
        if margin is None or not placement.gpus:
            return
        share = share_of_gpu(placement.processes, margin)
        if share is None:
            return
        used = share * processes_per_gpu(placement.instance, placement.processes)
        if not LEAST_USED_SHARE <= used <= 1:
            yield self.finding(
                loaded,
                placement.key("container.gpu_memory_margin"),
                margin,
                f"with gpu_memory_margin {margin:g} the processes of one GPU use {used:.0%} of it",
                allowed=f"{margin_for(placement.instance, placement.processes):g} uses 80 %",
                remedy="take it out: it is then chosen",
                reads=(placement.key("container.tfs_processes"), placement.key("instance_type")),
            )


class GpuMemory(VariantRule):
    """A model server loads every model into its one GPU; what does not fit fails while loading.

    Source: serve.py of the image (one GPU each); TensorFlow gpu_device.cc, MinSystemMemory;
    docs/decisions/0011 (nine tenths for weights)
    """

    id = "gpu-memory"
    acknowledgeable = True
    example = artifact(size_gib=20) + '\nvariants.primary.instance_type = "ml.g4dn.12xlarge"'

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        instance, model_gib = placement.instance, placement.served.model_gib
        if not placement.gpus:
            return
        if model_gib is None:
            yield from self.size_unknown(loaded, placement)
            return
        margin = placement.settings.gpu_memory_margin
        room = WEIGHTS_SHARE * process_gib(instance, placement.processes, margin)
        if model_gib > room:
            yield self.finding(
                loaded,
                placement.key("instance_type"),
                instance.name,
                f"every process of {instance.name} loads {model_gib:.1f} GiB of models into its "
                f"GPU, which has room for {room:.1f} of {instance.gpu_memory_gib:.1f} GiB ({instance.gpu}, "
                f"{_processes(placement)} on {counted(instance.gpus, 'GPU')})",
                allowed=f"models of at most {room:.1f} GiB",
                remedy="split the models, or choose a type with larger GPUs, as ml.g6e",
                reads=(f"models.{placement.variant.model}", placement.key("container")),
            )


def _processes(placement: Placement) -> str:
    return "1 process" if placement.processes == 1 else f"{placement.processes} processes"
