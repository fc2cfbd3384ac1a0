"""Threads against vCPUs, and settings that this machine's image does not read."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.policy.container import is_upstream
from infra.preflight.placement import Placement
from infra.preflight.rule import VariantRule


class ThreadsOversubscribed(VariantRule):
    """More computing threads than vCPUs wait for each other: throughput falls, latency rises.

    Measured by others: 36 vCPUs, 36 workers and one process of 36 threads did 164 requests/s,
    eight processes of one thread 319.
    Source: https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/
    """

    id = "threads-oversubscribed"
    severity = Severity.WARNING
    acknowledgeable = True
    example = """\
variants.primary.instance_type = "ml.c5.4xlarge"
variants.primary.container.tfs_processes = 4
variants.primary.container.intra_op_threads = 16"""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        vcpus, settings = placement.instance.vcpus, placement.settings
        for name in ("inter_op_threads", "intra_op_threads"):
            threads = getattr(settings, name)
            total = placement.processes * (threads or 0)
            if total > vcpus:
                yield self.finding(
                    loaded,
                    placement.key(f"container.{name}"),
                    threads,
                    f"{placement.processes} processes x {name} {threads} is {total} threads on "
                    f"{vcpus} vCPUs",
                    allowed=f"1 to {max(1, vcpus // placement.processes)}",
                    remedy="lower it, or tfs_processes; left out, it is chosen",
                    reads=(
                        placement.key("container.tfs_processes"),
                        placement.key("instance_type"),
                    ),
                )


class SettingInert(VariantRule):
    """A setting that nothing reads looks like tuning and is none.

    Source: serve.py of the image, https://github.com/aws/sagemaker-tensorflow-serving-container;
    libtensorflow as Google builds it does not use OpenMP
    """

    id = "setting-inert"
    severity = Severity.WARNING
    acknowledgeable = True
    example = "variants.primary.container.omp_threads = 4"

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        container = placement.variant.container
        if container.omp_threads is not None and is_upstream(placement.tensorflow):
            yield self._inert(
                loaded, placement, "omp_threads", f"TensorFlow {placement.tensorflow} has no OpenMP"
            )
        if container.gpu_memory_margin is not None:
            if not placement.instance.gpus:
                why = f"{placement.instance.name} has no GPU"
                yield self._inert(loaded, placement, "gpu_memory_margin", why)
            elif placement.processes == 1:
                why = "it is read only with several processes"
                yield self._inert(loaded, placement, "gpu_memory_margin", why)

    def _inert(self, loaded: Loaded, placement: Placement, name: str, why: str) -> Finding:
        given = getattr(placement.variant.container, name)
        return self.finding(
            loaded,
            placement.key(f"container.{name}"),
            given,
            f"{name} {given} is inert: {why}",
            allowed="nothing",
            remedy="take it out",
            reads=(placement.key("instance_type"), f"models.{placement.variant.model}.tensorflow"),
        )
