"""Rules about GPUs: all are used, the models fit into their memory, and the driver supports the CUDA."""

from dataclasses import replace

from infra.catalog import images
from infra.catalog.instances import (
    can_run_cuda,
    find_driver_cuda,
    has_failed_tests,
    is_listed_for,
    list_amis,
    list_families,
)
from infra.parameters.finding import Severity, suggest_name
from infra.parameters.placement import Placement
from infra.policy.hosting import find_driver
from infra.policy.sizing import (
    WEIGHTS_SHARE,
    compute_gpu_share,
    compute_process_gib,
    count_processes_per_gpu,
)
from infra.preflight.rendering import format_count
from infra.preflight.rule import Findings, Parts, Rule, VariantRule

# Using less than half of the GPU memory is assumed to be unintended.
LEAST_USED_SHARE = 0.5


class GpuRule(VariantRule):
    """A rule about variants whose processes share an instance's GPUs."""

    def list_parts(self) -> Parts:
        return ((placement,) for placement in self.candidate.containers if placement.gpus)


class GpuIdle(GpuRule):
    """A model server is pinned to one GPU: with fewer servers than GPUs, some GPUs stay idle.

    Source: serve.py of the images, 2.20 and before (CUDA_VISIBLE_DEVICES = process mod GPUs),
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    acknowledgeable = True

    def check_part(self, placement: Placement) -> Findings:
        gpus, processes = placement.gpus, placement.processes
        if processes < gpus:
            yield self.build_finding(
                placement.build_key("container.tfs_processes"),
                f"tfs_processes {processes} uses {processes} of the {gpus} GPUs of "
                f"{placement.instance.name}",
                given=processes,
                remedy=f"set {gpus}, or choose a type with fewer GPUs",
                reads=(placement.build_key("instance_type"),),
            )


class GpuUneven(GpuRule):
    """With five servers on four GPUs one GPU has twice the work, and every server gets less memory.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    severity = Severity.WARNING
    remedy = "set one of those"

    def check_part(self, placement: Placement) -> Findings:
        gpus, processes = placement.gpus, placement.processes
        if processes > gpus and processes % gpus:
            below = processes - processes % gpus
            yield self.build_finding(
                placement.build_key("container.tfs_processes"),
                f"tfs_processes {processes} is not a multiple of the {gpus} GPUs of "
                f"{placement.instance.name}",
                given=processes,
                allowed=f"{below} or {below + gpus}",
                reads=(placement.build_key("instance_type"),),
            )


class GpuShare(GpuRule):
    """The image divides the GPU memory by all processes, although they are spread over the GPUs.

    Source: serve.py of the images, 2.20 and before, _calculate_per_process_gpu_memory_fraction,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    severity = Severity.WARNING
    remedy = "remove it: Servable then chooses it"

    def check_part(self, placement: Placement) -> Findings:
        margin = placement.variant.container.gpu_memory_margin
        share = None if margin is None else compute_gpu_share(placement.processes, margin)
        if margin is None or share is None:
            return
        used = share * count_processes_per_gpu(placement.instance, placement.processes)
        if not LEAST_USED_SHARE <= used <= 1:
            yield self.build_finding(
                placement.build_key("container.gpu_memory_margin"),
                f"with gpu_memory_margin {margin:g} the processes of one GPU use {used:.0%} of it",
                reads=(
                    placement.build_key("container.tfs_processes"),
                    placement.build_key("instance_type"),
                ),
            )


class GpuMemory(GpuRule):
    """A model server loads every model into its one GPU; loading fails if they do not fit.

    Source: serve.py of the images, 2.20 and before (one GPU each); TensorFlow gpu_device.cc, MinSystemMemory;
    docs/decisions/0011 (nine tenths for weights)
    """

    acknowledgeable = True
    remedy = "split the models, or choose a type with larger GPUs, such as ml.g6e"

    def check_part(self, placement: Placement) -> Findings:
        instance, model_gib = placement.instance, placement.served.model_gib
        if model_gib is None:
            yield from self.report_unknown_size(placement)
            return
        margin = placement.settings.gpu_memory_margin
        room = WEIGHTS_SHARE * compute_process_gib(instance, placement.processes, margin)
        if model_gib > room and (margin or 0) < 1:  # from 1 on GpuShare reports the margin
            processes = f"{placement.processes} process{'es' if placement.processes > 1 else ''}"
            yield self.build_finding(
                placement.build_key("instance_type"),
                f"every process of {instance.name} loads {model_gib:.1f} GiB of models into its "
                f"GPU, which has room for {room:.1f} of {instance.gpu_memory_gib:.1f} GiB ({instance.gpu}, "
                f"{processes} on {format_count(instance.gpus, 'GPU')})",
                reads=(f"models.{placement.variant.model}", placement.build_key("container")),
            )


class AmiRule(Rule):
    """A rule about variants for which the file names an inference AMI."""

    def list_parts(self) -> Parts:
        for placement in self.candidate.placements:
            if (ami := placement.variant.inference_ami) is not None:
                yield placement, ami


class AmiUnknown(AmiRule):
    """SageMaker rejects an inference AMI that is not in its list.

    Source: infra/catalog/limits.json, ProductionVariantInferenceAmiVersion
    """

    def check_part(self, placement: Placement, ami: str) -> Findings:
        if ami not in list_amis():
            yield self.build_finding(
                placement.build_key("inference_ami"),
                f"{ami!r} is not an inference AMI for GPUs",
                allowed=", ".join(list_amis()),
                remedy=f"remove it: Servable then chooses it; {suggest_name(ami, list_amis())}",
            )


class AmiWithoutGpu(AmiRule):
    """The inference AMIs are for GPU instance types; with another type the endpoint fails.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (InferenceAmiVersion)
    """

    remedy = "remove it"

    def check_part(self, placement: Placement, ami: str) -> Findings:
        if ami in list_amis() and not placement.instance.gpus:
            yield self.build_finding(
                placement.build_key("inference_ami"),
                f"{ami}: {placement.instance.name} has no GPU",
                reads=(placement.build_key("instance_type"),),
            )


class AmiCuda(AmiRule):
    """If the driver is older than the image's CUDA, the container fails at start.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html;
    https://github.com/aws/deep-learning-containers/pull/6187; infra/catalog/inference_amis.json,
    image_facts.json
    """

    remedy = "remove it: Servable then chooses one for the image"

    def check_part(self, placement: Placement, ami: str) -> Findings:
        cuda, chosen = (
            images.find_cuda(placement.tensorflow),
            find_driver(placement.tensorflow, placement.instance),
        )
        if ami not in list_amis() or cuda is None or chosen in (ami, None):
            return
        image = f"the image of TensorFlow {placement.tensorflow}"
        older = images.parse_version(find_driver_cuda(ami)) < images.parse_version(cuda)
        if placement.model.image is not None or not (older or has_failed_tests(ami, cuda)):
            return
        finding = self.build_finding(
            placement.build_key("inference_ami"),
            f"the driver of {ami} supports CUDA {find_driver_cuda(ami)}, but {image} needs {cuda}"
            if older
            else f"{image} has CUDA {cuda}, and such images did not start on {ami} in AWS's tests",
            reads=(f"models.{placement.variant.model}.tensorflow",),
        )
        warns = can_run_cuda(ami, cuda)
        yield replace(finding, severity=Severity.WARNING) if warns else finding


class AmiFamily(AmiRule):
    """AWS lists the instance families of each AMI; ml.p2 and ml.p3 are listed for none.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html (2026-11-22)
    """

    remedy = "remove it: Servable then chooses an AMI if one fits"

    def check_part(self, placement: Placement, ami: str) -> Findings:
        instance = placement.instance
        if ami not in list_amis() or not instance.gpus or is_listed_for(ami, instance.family):
            return
        yield self.build_finding(
            placement.build_key("inference_ami"),
            f"{ami} is not for the {instance.gpu} of {instance.name}",
            allowed=f"ml.{', ml.'.join(list_families(ami))}",
            reads=(placement.build_key("instance_type"),),
        )
