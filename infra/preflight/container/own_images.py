"""Rules about your own container image, as far as its address tells: registry, kind, version, device."""

import re

from infra.catalog import images
from infra.catalog.images import Image, own_image
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.preflight.rule import Findings, Parts, Rule, VariantRule

OF_SERVING = "tensorflow-inference"
# AWS's registry of the images before TensorFlow 1.14, in all regions:
# https://github.com/aws/sagemaker-python-sdk/issues/912 (2026-11-24)
OLD_REGISTRY = "520713654638"
MOVING = ("latest", "current", "stable", "prod", "main", "master")


class OwnImageRule(Rule):
    """A rule about the address of your own image."""

    def parts(self) -> Parts:
        for name, model in self.environment.models.items():
            if model.image is not None:
                yield f"models.{name}.image", model.image, own_image(model.image)


def _words(image: Image) -> set[str]:
    """The words of the image's name and tag, in lower case."""
    return set(re.split(r"[^a-z0-9]+", f"{image.repository}:{image.tag}".lower()))


class ImageOwnAddress(OwnImageRule):
    """SageMaker pulls from ECR, or from a private registry in a VPC, which is not supported here.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    example = 'models.ranker.image = "docker.io/team/serving:v3"'
    allowed = (
        "ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG or @sha256:DIGEST, "
        "at most 255 characters"
    )
    remedy = "push it to ECR and write its address"

    def look(self, key: str, address: str, image: Image | None) -> Findings:
        if image is None or len(address) > 255:
            yield self.finding(key, f"{address!r} is not an address in ECR")


class ImageOwnRegion(OwnImageRule):
    """An image is pulled from the registry of the endpoint's own region.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    example = 'models.ranker.image = "111111111111.dkr.ecr.us-east-1.amazonaws.com/serving:v3"'
    reads = ("region",)

    def look(self, key: str, address: str, image: Image | None) -> Findings:
        if image is not None and image.region != self.environment.region:
            yield self.finding(
                key,
                f"the image is in {image.region}, the endpoint in {self.environment.region}",
                allowed=f"an image in {self.environment.region}",
                remedy=f"replicate the repository to {self.environment.region} and write that address",
            )


class ImageOwnKind(OwnImageRule):
    """AWS's registries also hold images for training and for EC2, which do not work in an endpoint.

    Source: https://github.com/aws/deep-learning-containers/blob/master/available_images.md (2026-11-22)
    """

    acknowledgeable = True
    example = "# models.ranker.image = an image for training, from AWS's registry"
    remedy = "write such an address, or remove image: AWS's image is then chosen"
    reads = ("region",)

    def look(self, key: str, address: str, image: Image | None) -> Findings:
        if image is None or image.account not in {*images.registry_accounts(), OLD_REGISTRY}:
            return
        here = sorted(images.registry_accounts(self.environment.region))
        built_for = sorted(_words(image) & {"ec2", "ecs", "eks"})
        if image.repository == f"{OF_SERVING}-eia":
            problem = f"{image.repository} is for Elastic Inference, which has ended"
        elif not image.repository.startswith(OF_SERVING):
            problem = f"{image.repository} of AWS is not an image of TensorFlow Serving"
        elif built_for:
            problem = f"{image.tag} is built for {built_for[0].upper()}"
        elif image.account not in here:
            problem = f"AWS has no registry {image.account} in {self.environment.region}"
        else:
            return
        yield self.finding(
            key,
            problem,
            given=image.tag if built_for else image.repository,
            allowed=f"{OF_SERVING}:VERSION-DEVICE-…-sagemaker of registry {', '.join(here)}",
        )


class ImageOwnVersion(VariantRule):
    """Settings, timeouts and the check of the code depend on `tensorflow`; the tag has another version.

    Source: the version in the tag, which AWS's own images have too,
    https://github.com/aws/deep-learning-containers/blob/master/available_images.md (2026-11-22)
    """

    severity = Severity.WARNING
    example = """\
models.ranker.tensorflow = "2.20"
models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-serving:2.19.0-cpu\""""

    def look(self, placement: Placement) -> Findings:
        image = own_image(placement.model.image or "")
        number = re.match(r"\d+\.\d+", image.tag) if image else None
        if image is None or number is None or "tensorflow" not in image.repository:
            return
        other = images.number(number[0]) != images.number(placement.tensorflow)
        if other and number[0] in images.versions():
            yield self.finding(
                f"models.{placement.variant.model}.tensorflow",
                f"the image's tag {image.tag} says TensorFlow {number[0]}, but settings and code are "
                f"chosen and checked for {placement.tensorflow}",
                given=placement.tensorflow,
                allowed=number[0],
                remedy=f'set tensorflow = "{number[0]}", or choose another image',
                reads=(f"models.{placement.variant.model}.image",),
            )


class ImageOwnMovingTag(OwnImageRule):
    """Instances that scaling adds pull the image again: if the tag has moved, they run another image.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
    """

    severity = Severity.WARNING
    example = 'models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:latest"'
    allowed = "a digest, or a tag that never moves"
    remedy = "write @sha256:… or a tag with a version"

    def look(self, key: str, address: str, image: Image | None) -> Findings:
        if image is not None and image.tag in MOVING:
            yield self.finding(key, f"the tag {image.tag!r} moves from image to image")


class ImageDevice(VariantRule):
    """A GPU image fails at start on a CPU instance; a CPU image leaves a paid GPU idle.

    Source: the device in the tag, which AWS's own images have too,
    https://github.com/aws/deep-learning-containers/blob/master/available_images.md
    """

    acknowledgeable = True
    example = """\
models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:v3-gpu"
variants.primary.instance_type = "ml.c5.xlarge\""""
    remedy = "change the image or the instance type"

    def look(self, placement: Placement) -> Findings:
        image = own_image(placement.model.image or "")
        devices = sorted(_words(image) & {"cpu", "gpu"}) if image else []
        if len(devices) == 1 and devices[0] != placement.instance.device:
            yield self.finding(
                placement.key("instance_type"),
                f"the image is built for a {devices[0].upper()} by its name, but {placement.instance.name} "
                f"is a {placement.instance.device.upper()} type",
                given=placement.instance.name,
                allowed=f"a {devices[0].upper()} type",
                reads=(f"models.{placement.variant.model}.image",),
            )
