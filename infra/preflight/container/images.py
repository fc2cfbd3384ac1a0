"""The container image, AWS's or one's own: is there one, here, for this machine?"""

import re
from collections.abc import Iterator

from infra.catalog import images
from infra.catalog.images import Image, own_image
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.variant import machine_of
from infra.policy.hosting import newest_version, runs
from infra.preflight.rule import Findings, Rule, VariantRule

MOVING = ("latest", "current", "stable", "prod", "main", "master")


class ImageUnknown(Rule):
    """The endpoint fails when its image cannot be pulled, minutes after the deployment began.

    Source: infra/catalog/images.json
    """

    example = 'models.ranker.tensorflow = "2.21"'

    def check(self, environment: Environment) -> Findings:
        for name, model in environment.models.items():
            known = images.versions()
            short = [one for one in known if one.count(".") == 1]
            key = f"models.{name}.tensorflow"
            if model.image is not None and model.tensorflow is None:
                continue
            if model.tensorflow is None:
                yield from self._region(environment, name)
            elif model.tensorflow not in known:
                yield self.finding(
                    key,
                    f"there is no image for TensorFlow {model.tensorflow}",
                    allowed=", ".join(short),
                    remedy=f"did you mean {_closest(model.tensorflow, short)}?",
                )
            elif model.image is None and environment.region not in images.regions(model.tensorflow):
                yield self.finding(
                    key,
                    f"no image for TensorFlow {model.tensorflow} in {environment.region}",
                    allowed=", ".join(images.regions(model.tensorflow)),
                    remedy="change region or tensorflow",
                )

    def _region(self, environment: Environment, name: str) -> Findings:
        """The version is ours to choose: the region must have whichever it becomes."""
        for variant in environment.variants.values():
            instance = machine_of(variant)
            if variant.model != name or instance is None:
                continue
            version = newest_version(instance)
            if environment.region not in images.regions(version):
                yield self.finding(
                    "region",
                    f"no image for TensorFlow {version} in {environment.region}",
                    allowed=", ".join(images.regions(version)),
                    remedy="change the region, or name a tensorflow that it has",
                )
                return


def _closest(version: str, known: list[str]) -> str:
    """The known version nearest in number: 2.21 is 2.20's neighbour, and not 2.2's."""
    digits = re.findall(r"[0-9]+", version)[:2]
    wanted = [int(one[:6]) for one in digits] or [2]
    wanted += [99] * (2 - len(wanted))

    def distance(one: str) -> tuple[int, int]:
        major, minor = (int(part) for part in one.split("."))
        return abs(major - wanted[0]), abs(minor - wanted[1])

    return min(known, key=distance)


class ImageEnded(VariantRule):
    """After its end of patch nobody mends what is found in an image.

    Source: infra/catalog/image_facts.json (end_of_patch), compared with that table's own date
    """

    severity = Severity.WARNING
    example = 'models.ranker.tensorflow = "2.19"'

    def look(self, environment: Environment, placement: Placement) -> Findings:
        version, ended = placement.tensorflow, images.ended(placement.tensorflow)
        if ended is not None and placement.model.image is None:
            short = [one for one in images.versions() if one.count(".") == 1]
            patched = [
                one for one in short if images.ended(one) is None and runs(one, placement.instance)
            ]
            yield self.finding(
                f"models.{placement.variant.model}.tensorflow",
                f"patches of TensorFlow {version}'s image ended, on {ended} or before",
                allowed=", ".join(patched) or f"none runs on the {placement.instance.gpu}",
                remedy=f"set tensorflow to {patched[-1]}"
                if patched
                else f"choose {placement.instance.successor}",
                reads=(placement.key("instance_type"),),
            )


class ImageGpuTooOld(Rule):
    """CUDA 12 dropped the K80 of ml.p2: the model would load and its first operation fail.

    Source: infra/catalog/gpus.json, infra/catalog/image_facts.json
    """

    example = """\
models.ranker.tensorflow = "2.20"
variants.primary.instance_type = "ml.p2.xlarge\""""

    def check(self, environment: Environment) -> Findings:
        for name, variant in environment.variants.items():
            instance = machine_of(variant)
            model = environment.models.get(variant.model)
            if not (instance and model and model.tensorflow in images.versions()):
                continue
            if model.image is not None:
                continue
            if not runs(model.tensorflow, instance):
                newest = newest_version(instance)
                yield self.finding(
                    f"models.{variant.model}.tensorflow",
                    f"the image of TensorFlow {model.tensorflow} (CUDA "
                    f"{images.cuda(model.tensorflow) or 'not documented'}) does not run on the "
                    f"{instance.gpu} of {instance.name} in variant {name}",
                    allowed=f"{newest} (CUDA {images.cuda(newest)})",
                    remedy=f"set tensorflow to {newest}, or choose {instance.successor}",
                )


def _own(environment: Environment) -> Iterator[tuple[str, str, Image | None]]:
    for name, model in environment.models.items():
        if model.image is not None:
            yield f"models.{name}.image", model.image, own_image(model.image)


class ImageOwnAddress(Rule):
    """SageMaker pulls from ECR, or from a private registry in a VPC, which is not supported here.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    example = 'models.ranker.image = "docker.io/team/serving:v3"'

    def check(self, environment: Environment) -> Findings:
        for key, given, image in _own(environment):
            if image is None or len(given) > 255:
                yield self.finding(
                    key,
                    f"{given!r} is no address in ECR",
                    allowed="ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG or @sha256:DIGEST, "
                    "at most 255 characters",
                    remedy="push it to ECR and write its address",
                )


class ImageOwnRegion(Rule):
    """An image is pulled from the registry of the endpoint's own region.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    example = 'models.ranker.image = "111111111111.dkr.ecr.us-east-1.amazonaws.com/serving:v3"'

    def check(self, environment: Environment) -> Findings:
        for key, _, image in _own(environment):
            if image is not None and image.region != environment.region:
                yield self.finding(
                    key,
                    f"the image lies in {image.region}, the endpoint in {environment.region}",
                    allowed=f"an image in {environment.region}",
                    remedy="replicate the repository there and name that",
                    reads=("region",),
                )


class ImageOwnMovingTag(Rule):
    """Instances that scaling adds pull again: under a tag that moves they run something else.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
    """

    severity = Severity.WARNING
    example = 'models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:latest"'

    def check(self, environment: Environment) -> Findings:
        for key, _, image in _own(environment):
            if image is not None and image.tag in MOVING:
                yield self.finding(
                    key,
                    f"the tag {image.tag!r} will name another image one day",
                    allowed="a digest, or a tag that is written once",
                    remedy="write @sha256:… or a version's tag",
                )


class ImageDevice(VariantRule):
    """A GPU image on a CPU machine fails at start; a CPU image leaves the GPU to be paid for idle.

    Source: the device in the tag, as AWS's own images have it,
    https://github.com/aws/deep-learning-containers/blob/master/available_images.md
    """

    acknowledgeable = True
    example = """\
models.ranker.image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:v3-gpu"
variants.primary.instance_type = "ml.c5.xlarge\""""

    def look(self, environment: Environment, placement: Placement) -> Findings:
        image = own_image(placement.model.image or "")
        if image is None:
            return
        words = set(re.split(r"[^a-z0-9]+", f"{image.repository}:{image.tag}".lower()))
        said = sorted(words & {"cpu", "gpu"})
        if len(said) == 1 and said[0] != placement.instance.device:
            yield self.finding(
                placement.key("instance_type"),
                f"the image is named for a {said[0].upper()}, {placement.instance.name} is a "
                f"{placement.instance.device.upper()} machine",
                given=placement.instance.name,
                allowed=f"a {said[0].upper()} type",
                remedy="change the image or the type",
                reads=(f"models.{placement.variant.model}.image",),
            )
