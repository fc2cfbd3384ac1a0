"""inference_ami, where the file names one: the host's driver under the image's CUDA."""

from collections.abc import Iterator

from infra.catalog import gpus, images
from infra.catalog.inference_amis import carries, cuda_of, families_of, names
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, meant
from infra.parameters.loading import Loaded
from infra.policy.hosting import driver_for
from infra.preflight.placement import Placement
from infra.preflight.rule import VariantRule


class AmiUnknown(VariantRule):
    """SageMaker refuses a name that is not in its list.

    Source: infra/catalog/limits.json, ProductionVariantInferenceAmiVersion
    """

    id = "ami-unknown"
    example = """\
variants.primary.instance_type = "ml.g5.xlarge"
variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-9\""""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        ami = placement.variant.inference_ami
        if ami is not None and ami not in names():
            yield self.finding(
                loaded,
                placement.key("inference_ami"),
                ami,
                f"{ami!r} is no inference AMI for a GPU",
                allowed=", ".join(names()),
                remedy=f"take it out: it is then chosen; {meant(ami, names())}",
            )


class AmiWithoutGpu(VariantRule):
    """The inference AMIs are for GPU machines; with another the endpoint fails.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (InferenceAmiVersion)
    """

    id = "ami-without-gpu"
    example = 'variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-2"'

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        ami = placement.variant.inference_ami
        if ami in names() and not placement.instance.gpus:
            yield self.finding(
                loaded,
                placement.key("inference_ami"),
                ami,
                f"{ami}: {placement.instance.name} has no GPU",
                allowed="no inference_ami",
                remedy="take it out",
                reads=(placement.key("instance_type"),),
            )


class AmiCuda(VariantRule):
    """A driver older than the image's CUDA: the container fails at start.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/inference-gpu-drivers.html;
    infra/catalog/inference_amis.json, image_facts.json
    """

    id = "ami-cuda"
    example = """\
variants.primary.instance_type = "ml.g5.xlarge"
variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-3-1\""""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        ami, cuda = placement.variant.inference_ami, images.cuda(placement.tensorflow)
        if ami not in names() or cuda is None or not placement.instance.gpus:
            return
        if placement.model.image is None and not carries(ami, cuda):
            yield self.finding(
                loaded,
                placement.key("inference_ami"),
                ami,
                f"{ami}: its driver carries CUDA {cuda_of(ami)}, the image of TensorFlow "
                f"{placement.tensorflow} needs {cuda}",
                allowed=str(driver_for(placement.tensorflow)),
                remedy="take it out: it is then chosen for the image",
                reads=(f"models.{placement.variant.model}.tensorflow",),
            )


class AmiFamily(VariantRule):
    """AWS lists the families an AMI is for; no inference AMI has a driver for the K80 of ml.p2.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    (InferenceAmiVersion)
    """

    id = "ami-family"
    example = """\
variants.primary.instance_type = "ml.g6e.xlarge"
variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-2\""""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        ami, instance = placement.variant.inference_ami, placement.instance
        if ami not in names() or not instance.gpus:
            return
        family, families = instance.name.split(".")[1], families_of(ami)
        newest_cuda = gpus.newest_cuda(instance.gpu or "") or 99
        # Its last driver is older than the oldest AMI's.
        too_old = newest_cuda < min(int(cuda_of(one).split(".")[0]) for one in names())
        if too_old or (families is not None and family not in families):
            yield self.finding(
                loaded,
                placement.key("inference_ami"),
                ami,
                f"{ami} is not for the {instance.gpu} of {instance.name}",
                allowed=f"ml.{', ml.'.join(families)}" if families else "a newer GPU",
                remedy="take it out: it is then chosen, or left out where none fits",
                reads=(placement.key("instance_type"),),
            )
