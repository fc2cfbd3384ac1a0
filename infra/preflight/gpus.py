"""GPUs that are paid for."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement
from infra.preflight.rule import VariantRule


class GpuIdle(VariantRule):
    """A model server is pinned to one GPU: with fewer servers than GPUs some are paid for idle.

    Source: serve.py of the image (CUDA_VISIBLE_DEVICES = process mod GPUs),
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    id = "gpu-idle"
    acknowledgeable = True
    example = """\
variants.primary.instance_type = "ml.g4dn.12xlarge"
variants.primary.container.tfs_processes = 1"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        gpus, processes = placement.gpus, placement.processes
        if processes < gpus:
            yield self.finding(
                loaded,
                placement.key("container.tfs_processes"),
                processes,
                f"tfs_processes {processes} uses {processes} of the {gpus} GPUs of "
                f"{placement.instance.name}",
                allowed=f"{gpus}, or a multiple of it",
                remedy=f"set {gpus}, or choose a type with fewer GPUs",
                reads=(placement.key("instance_type"),),
            )


class GpuUneven(VariantRule):
    """With five servers on four GPUs one GPU has twice the work, and the memory of all is cut for it.

    Source: serve.py of the image, https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    id = "gpu-uneven"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
variants.primary.instance_type = "ml.g4dn.12xlarge"
variants.primary.container.tfs_processes = 6"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        gpus, processes = placement.gpus, placement.processes
        if gpus and processes > gpus and processes % gpus:
            below = processes - processes % gpus
            yield self.finding(
                loaded,
                placement.key("container.tfs_processes"),
                processes,
                f"tfs_processes {processes} is no multiple of the {gpus} GPUs of "
                f"{placement.instance.name}",
                allowed=f"{below} or {below + gpus}",
                remedy="set one of those",
                reads=(placement.key("instance_type"),),
            )
