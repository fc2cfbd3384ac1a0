"""A container image of one's own: the checks that still apply."""

import re
from collections.abc import Iterator

from infra.catalog.images import Image, own_image
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement
from infra.preflight.rule import Rule, VariantRule

MOVING = ("latest", "current", "stable", "prod", "main", "master")


def _own(environment: Environment) -> Iterator[tuple[str, str, Image | None]]:
    for name, model in environment.models.items():
        if model.image is not None:
            yield f"models.{name}.image", model.image, own_image(model.image)


class ImageOwnAddress(Rule):
    """SageMaker pulls from ECR, or from a private registry in a VPC, which is not supported here.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    id = "image-own-address"
    example = 'models.ranker.image = "docker.io/team/serving:v3"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for key, given, image in _own(environment):
            if image is None or len(given) > 255:
                yield self.finding(
                    loaded,
                    key,
                    given,
                    f"{given!r} is no address in ECR",
                    allowed="ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG or @sha256:DIGEST, "
                    "at most 255 characters",
                    remedy="push it to ECR and write its address",
                )


class ImageOwnRegion(Rule):
    """An image is pulled from the registry of the endpoint's own region.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    id = "image-own-region"
    example = 'models.ranker.image = "111111111111.dkr.ecr.us-east-1.amazonaws.com/serving:v3"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for key, given, image in _own(environment):
            if image is not None and image.region != environment.region:
                yield self.finding(
                    loaded,
                    key,
                    given,
                    f"the image lies in {image.region}, the endpoint in {environment.region}",
                    allowed=f"an image in {environment.region}",
                    remedy="replicate the repository there and name that",
                    reads=("region",),
                )


class ImageOwnMovingTag(Rule):
    """Instances that scaling adds pull again: under a tag that moves they run something else.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
    """

    id = "image-own-moving-tag"
    severity = Severity.WARNING
    acknowledgeable = True
    example = 'models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:latest"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for key, given, image in _own(environment):
            if image is not None and image.tag in MOVING:
                yield self.finding(
                    loaded,
                    key,
                    given,
                    f"the tag {image.tag!r} will name another image one day",
                    allowed="a digest, or a tag that is written once",
                    remedy="write @sha256:… or a version's tag",
                )


class ImageDevice(VariantRule):
    """A GPU image on a CPU machine fails at start; a CPU image leaves the GPU to be paid for idle.

    Source: the device in the tag, as AWS's own images have it,
    https://github.com/aws/deep-learning-containers/blob/master/available_images.md
    """

    id = "image-device"
    acknowledgeable = True
    example = """\
models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:v3-gpu"
variants.primary.instance_type = "ml.c5.xlarge\""""

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        image = own_image(placement.model.image or "")
        if image is None:
            return
        words = set(re.split(r"[^a-z0-9]+", f"{image.repository}:{image.tag}".lower()))
        said = sorted(words & {"cpu", "gpu"})
        if len(said) == 1 and said[0] != placement.instance.device:
            yield self.finding(
                loaded,
                placement.key("instance_type"),
                placement.instance.name,
                f"the image is named for a {said[0].upper()}, {placement.instance.name} is a "
                f"{placement.instance.device.upper()} machine",
                allowed=f"a {said[0].upper()} type",
                remedy="change the image or the type",
                reads=(f"models.{placement.variant.model}.image",),
            )
