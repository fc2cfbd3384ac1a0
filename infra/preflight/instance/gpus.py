"""Rules about GPUs: all are used, the models fit into their memory, and the driver supports the CUDA."""

from infra.catalog import images
from infra.catalog.instances import (
    can_ami_run_cuda,
    find_driver_cuda,
    has_ami_failed_tests,
    is_ami_listed_for,
    list_ami_families,
    list_amis,
)
from infra.parameters.finding import Severity, suggest_name
from infra.parameters.placement import Placement
from infra.policy import sizing
from infra.policy.hosting import find_driver
from infra.preflight.rendering import format_count
from infra.preflight.rule import Findings, Parts, Rule, VariantRule

# Using less than half of the GPU memory is assumed to be unintended.
LEAST_USED_SHARE = 0.5


class GpuRule(VariantRule):
    """A rule about variants whose processes share an instance's GPUs."""

    def list_parts(self) -> Parts:
        return ((placement,) for placement in self.candidate.containers if placement.gpus)


class GpuIdle(GpuRule, acknowledgeable=True):
    """A model server is pinned to one GPU: with fewer servers than GPUs, some GPUs stay idle.

    Source: serve.py of the images, 2.20 and before (CUDA_VISIBLE_DEVICES = process mod GPUs),
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    key = "container.tfs_processes"
    problem = (
        "tfs_processes {placement.processes} uses {placement.processes} of the {placement.gpus} GPUs of "
        "{placement.instance.name}"
    )
    reads = ("instance_type",)

    def find_problems(self, placement: Placement) -> Findings:
        if placement.processes < placement.gpus:
            remedy = f"set {placement.gpus}, or choose a type with fewer GPUs"
            yield self.build_finding(given=placement.processes, remedy=remedy)


class GpuUneven(GpuRule, severity=Severity.WARNING):
    """With five servers on four GPUs one GPU has twice the work, and every server gets less memory.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    key = "container.tfs_processes"
    problem = (
        "tfs_processes {placement.processes} is not a multiple of the {placement.gpus} GPUs of "
        "{placement.instance.name}"
    )
    remedy = "set one of those"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement) -> Findings:
        gpus, processes = placement.gpus, placement.processes
        below = processes - processes % gpus
        if processes > below > 0:
            yield self.build_finding(given=processes, allowed=f"{below} or {below + gpus}")


class GpuShare(GpuRule, severity=Severity.WARNING):
    """The image divides the GPU memory by all processes, although they are spread over the GPUs.

    Source: serve.py of the images, 2.20 and before, _calculate_per_process_gpu_memory_fraction,
    https://github.com/aws/sagemaker-tensorflow-serving-container
    """

    key = "container.gpu_memory_margin"
    problem = "with gpu_memory_margin {margin:g} the processes of one GPU use {used:.0%} of it"
    remedy = "remove it: Servable then chooses it"
    reads = ("container.tfs_processes", "instance_type")

    def find_problems(self, placement: Placement) -> Findings:
        margin, processes = placement.variant.container.gpu_memory_margin, placement.processes
        share = None if margin is None else sizing.compute_gpu_share(processes, margin)
        if share is not None:
            used = share * sizing.count_processes_per_gpu(placement.instance, processes)
            if not LEAST_USED_SHARE <= used <= 1:
                yield self.build_finding(margin=margin, used=used)


class GpuMemory(GpuRule, acknowledgeable=True):
    """A model server loads every model into its one GPU; loading fails if they do not fit.

    Source: serve.py of the images, 2.20 and before (one GPU each); TensorFlow gpu_device.cc, MinSystemMemory;
    docs/decisions/0011 (nine tenths for weights)
    """

    key = "instance_type"
    problem = (
        "every process of {instance.name} loads {model_gib:.1f} GiB of models into its GPU, which has room "
        "for {room:.1f} of {instance.gpu_memory_gib:.1f} GiB ({instance.gpu}, {processes} on {gpus})"
    )
    remedy = "split the models, or choose a type with larger GPUs, such as ml.g6e"
    reads = ("models.{placement.variant.model}", "container")

    def find_problems(self, placement: Placement) -> Findings:
        instance, model_gib = placement.instance, placement.served.model_gib
        count, margin = placement.processes, placement.settings.gpu_memory_margin
        if model_gib is None:
            yield from self.report_unknown_size(placement)
            return
        room = sizing.WEIGHTS_SHARE * sizing.compute_process_gib(instance, count, margin)
        if model_gib > room and (margin or 0) < 1:  # from 1 on GpuShare reports the margin
            yield self.build_finding(
                instance=instance,
                model_gib=model_gib,
                room=room,
                processes=f"{count} process{'es' if count > 1 else ''}",
                gpus=format_count(instance.gpus, "GPU"),
            )


class AmiRule(Rule):
    """A rule about variants for which the file names an inference AMI."""

    key = "inference_ami"

    def list_parts(self) -> Parts:
        for placement in self.candidate.placements:
            if (ami := placement.variant.inference_ami) is not None:
                yield placement, ami


class AmiUnknown(AmiRule):
    """SageMaker rejects an inference AMI that is not in its list.

    Source: infra/catalog/limits.json, ProductionVariantInferenceAmiVersion
    """

    problem = "{ami!r} is not an inference AMI for GPUs"

    def find_problems(self, placement: Placement, ami: str) -> Findings:
        known = list_amis()
        if ami not in known:
            remedy = f"remove it: Servable then chooses it; {suggest_name(ami, known)}"
            yield self.build_finding(allowed=", ".join(known), remedy=remedy)


class AmiWithoutGpu(AmiRule):
    """The inference AMIs are for GPU instance types; with another type the endpoint fails.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (InferenceAmiVersion)
    """

    problem = "{ami}: {placement.instance.name} has no GPU"
    remedy = "remove it"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement, ami: str) -> Findings:
        if ami in list_amis() and not placement.instance.gpus:
            yield self.build_finding()


class AmiCuda(AmiRule):
    """If the driver is older than the image's CUDA, the container fails at start.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html;
    https://github.com/aws/deep-learning-containers/pull/6187; infra/catalog/inference_amis.json,
    image_facts.json
    """

    remedy = "remove it: Servable then chooses one for the image"
    reads = ("models.{placement.variant.model}.tensorflow",)

    def find_problems(self, placement: Placement, ami: str) -> Findings:
        tensorflow, cuda = placement.tensorflow, images.find_cuda(placement.tensorflow)
        chosen = find_driver(tensorflow, placement.instance)
        if ami not in list_amis() or cuda is None or chosen in (ami, None) or placement.model.image:
            return
        image, driver = f"the image of TensorFlow {tensorflow}", find_driver_cuda(ami)
        if images.parse_version(driver) < images.parse_version(cuda):
            problem = f"the driver of {ami} supports CUDA {driver}, but {image} needs {cuda}"
        elif has_ami_failed_tests(ami, cuda):
            failed = f"such images did not start on {ami} in AWS's tests"
            problem = f"{image} has CUDA {cuda}, and {failed}"
        else:
            return
        # A driver that mounts the image's CUDA compatibility libraries may run it; AWS tests neither case.
        severity = Severity.WARNING if can_ami_run_cuda(ami, cuda) else Severity.ERROR
        yield self.build_finding(problem=problem, severity=severity)


class AmiFamily(AmiRule):
    """AWS lists the instance families of each AMI; ml.p2 and ml.p3 are listed for none.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html (2026-11-22)
    """

    problem = "{ami} is not for the {placement.instance.gpu} of {placement.instance.name}"
    remedy = "remove it: Servable then chooses an AMI if one fits"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement, ami: str) -> Findings:
        instance = placement.instance
        if ami in list_amis() and instance.gpus and not is_ami_listed_for(ami, instance.family):
            yield self.build_finding(allowed=f"ml.{', ml.'.join(list_ami_families(ami))}")
