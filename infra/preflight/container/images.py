"""Rules about the container image: it must exist in the region and run on the instance type.

Your own image is checked as far as its address tells: registry, kind, version, device.
"""

import re
from itertools import chain

from infra.catalog import images
from infra.catalog.images import Image, parse_own_image
from infra.catalog.instances import find_gpu_fact
from infra.parameters.finding import Severity, find_nearest
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement
from infra.parameters.variant import Variant, find_variant_machine
from infra.policy.hosting import can_run, find_newest_version
from infra.preflight.rule import (
    ContainerRule,
    EachVariantRule,
    Findings,
    ModelRule,
    Parts,
    Rule,
    VariantRule,
)


class ImageUnknown(ModelRule):
    """The endpoint fails when its image cannot be pulled, minutes after the deployment began.

    Source: infra/catalog/images.json
    """

    example = 'models.ranker.tensorflow = "2.21"'

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        version, key = model.tensorflow, f"models.{name}.tensorflow"
        if version is not None and version not in images.list_versions():
            short = [other for other in images.list_versions() if other.count(".") == 1]
            problem = f"there is no image for TensorFlow {version}"
            remedy = f"did you mean {_find_closest(version, short)}?"
            yield self.build_finding(key, problem, allowed=", ".join(short), remedy=remedy)
        elif model.image is not None:
            return  # your own, which AWS's registries need not have
        elif version is not None:
            yield from self._check_region(version, key, "change region or tensorflow")
        else:
            variants = self.environment.serving_variants.values()
            each = chain.from_iterable(
                one.variants_per_type for one in variants if one.model == name
            )
            chosen = {find_newest_version(one) for one in map(find_variant_machine, each) if one}
            remedy = "change the region, or set tensorflow to a version that it has"
            for version in sorted(chosen):
                yield from self._check_region(version, "region", remedy)

    def _check_region(self, version: str, key: str, remedy: str) -> Findings:
        """Yield a finding if the Region lacks the image. Suggest a Region if it is misspelled."""
        region, having = self.environment.region, images.list_regions(version)
        if region not in having:
            known = {one for other in images.list_versions() for one in images.list_regions(other)}
            if region not in known and (close := find_nearest(region, having)):
                remedy = f'set region = "{close}"'
            problem = f"no image for TensorFlow {version} in {region}"
            yield self.build_finding(key, problem, allowed=", ".join(having), remedy=remedy)


def _find_closest(version: str, versions: list[str]) -> str:
    """Return the version nearest in number: for 2.21 that is 2.20 and not 2.2."""
    numbers = [int(digits[:6]) for digits in re.findall(r"[0-9]+", version)[:2]] or [2]
    numbers += [99] * (2 - len(numbers))

    def compute_distance(other: str) -> list[int]:
        return [abs(a - b) for a, b in zip(images.parse_version(other), numbers, strict=True)]

    return min(versions, key=compute_distance)


class ImageEnded(ContainerRule, severity=Severity.WARNING):
    """After its end of patch an image gets no security fixes.

    Source: infra/catalog/image_facts.json (end_of_patch), compared with that table's own date
    """

    example = 'models.ranker.tensorflow = "2.19"'
    key = "models.{placement.variant.model}.tensorflow"
    problem = "AWS stopped patching the image of TensorFlow {version} on {ended} or before"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement) -> Findings:
        version, ended = placement.tensorflow, images.find_end_of_patch(placement.tensorflow)
        if ended is None or placement.model.image is not None:
            return
        patched = [
            other
            for other in images.list_versions()
            if other.count(".") == 1
            and images.find_end_of_patch(other) is None
            and can_run(other, placement.instance)
        ]
        allowed = f"none runs on the {placement.instance.gpu}"
        remedy = f"choose {placement.instance.successor}"
        if patched:
            allowed, remedy = ", ".join(patched), f"set tensorflow to {patched[-1]}"
        yield self.build_finding(version=version, ended=ended, allowed=allowed, remedy=remedy)


class ImageGpuTooOld(EachVariantRule):
    """CUDA 12 dropped the K80 of ml.p2, and ml.p3 has no driver for it: AWS lists no inference AMI for both.

    The model would load and its first operation fail.
    Source: infra/catalog/gpus.json, infra/catalog/image_facts.json, infra/catalog/inference_amis.json
    """

    def find_problems(self, name: str, variant: Variant) -> Findings:
        model = self.environment.models.get(variant.model)
        if model is None or model.image or model.tensorflow not in images.list_versions():
            return
        for instance in filter(None, map(find_variant_machine, variant.variants_per_type)):
            if not can_run(model.tensorflow, instance):
                newest = find_newest_version(instance)
                yield self.build_finding(
                    f"models.{variant.model}.tensorflow",
                    f"the image of TensorFlow {model.tensorflow} (CUDA "
                    f"{images.find_cuda(model.tensorflow) or 'not documented'}) does not run on the "
                    f"{instance.gpu} of {instance.name} in variant {name}",
                    remedy=f"set tensorflow to {newest}, or choose {instance.successor}",
                )


class ImageCudaTooOld(ContainerRule, acknowledgeable=True):
    """An image whose CUDA is older than its GPU has no kernels for it.

    Source: infra/catalog/gpus.json, infra/catalog/image_facts.json; for your own image its tag (cu112)
    """

    problem = (
        "the image's CUDA {cuda} has no kernels for the {placement.instance.gpu} of "
        "{placement.instance.name}"
    )
    allowed = "CUDA {oldest} or newer, which TensorFlow {newest} has"
    remedy = "choose an image with a newer CUDA, or an older instance type"
    reads = ("instance_type",)

    def find_problems(self, placement: Placement) -> Findings:
        oldest, key = find_gpu_fact(placement.instance.gpu, "oldest_cuda"), "tensorflow"
        cuda: str | None = images.infer_cuda(placement.tensorflow)
        if placement.model.image is not None:
            own = parse_own_image(placement.model.image)
            stated = re.search(r"(?<![a-z0-9])cu(?:da)?(\d\d)\.?(\d)", own.tag if own else "")
            cuda, key = f"{stated[1]}.{stated[2]}" if stated else None, "image"
        if oldest is None or cuda is None:
            return
        has, needs = images.parse_version(cuda), images.parse_version(oldest)
        if has < needs:
            # In one CUDA generation kernels are compiled at the start, which takes minutes.
            yield self.build_finding(
                f"models.{placement.variant.model}.{key}",
                given=cuda,
                cuda=cuda,
                oldest=oldest,
                newest=find_newest_version(placement.instance),
                severity=Severity.ERROR if has[0] < needs[0] else Severity.WARNING,
            )


OF_SERVING = "tensorflow-inference"
# AWS's registry of the images before TensorFlow 1.14, in all regions:
# https://github.com/aws/sagemaker-python-sdk/issues/912 (2026-11-24)
OLD_REGISTRY = "520713654638"
MOVING = ("latest", "current", "stable", "prod", "main", "master")


class OwnImageRule(Rule):
    """A rule about the address of the user's own image."""

    def list_parts(self) -> Parts:
        for name, model in self.environment.models.items():
            if model.image is not None:
                yield f"models.{name}.image", model.image, parse_own_image(model.image)


def _split_words(image: Image) -> set[str]:
    """Return the words of the image's name and tag, in lower case."""
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

    def find_problems(self, key: str, address: str, image: Image | None) -> Findings:
        if image is None or len(address) > 255:
            yield self.build_finding(key, f"{address!r} is not an address in ECR")


class ImageOwnRegion(OwnImageRule):
    """An image is pulled from the registry of the endpoint's own region.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (Image)
    """

    reads = ("region",)

    def find_problems(self, key: str, address: str, image: Image | None) -> Findings:
        if image is not None and image.region != self.environment.region:
            here = self.environment.region
            problem = f"the image is in {image.region}, the endpoint in {here}"
            remedy = f"replicate the repository to {here} and write that address"
            yield self.build_finding(key, problem, remedy=remedy)


class ImageOwnKind(OwnImageRule, acknowledgeable=True):
    """AWS's registries also contain images for training and for EC2, which do not work in an endpoint.

    Source: https://github.com/aws/deep-learning-containers/blob/master/available_images.md (2026-11-22)
    """

    remedy = "write such an address, or remove image: AWS's image is then chosen"
    reads = ("region",)

    def find_problems(self, key: str, address: str, image: Image | None) -> Findings:
        if image is None or image.account not in {*images.list_registry_accounts(), OLD_REGISTRY}:
            return
        here = sorted(images.list_registry_accounts(self.environment.region))
        built_for = sorted(_split_words(image) & {"ec2", "ecs", "eks"})
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
        given = image.tag if built_for else image.repository
        allowed = f"{OF_SERVING}:VERSION-DEVICE-…-sagemaker of registry {', '.join(here)}"
        yield self.build_finding(key, problem, given=given, allowed=allowed)


class ImageOwnVersion(VariantRule, severity=Severity.WARNING):
    """Settings, timeouts and the check of the code depend on `tensorflow`; the tag has another version.

    Source: the version in the tag, which AWS's own images have too,
    https://github.com/aws/deep-learning-containers/blob/master/available_images.md (2026-11-22)
    """

    key = "models.{placement.variant.model}.tensorflow"
    problem = (
        "the image's tag {image.tag} names TensorFlow {stated}, but settings and code are chosen and checked "
        "for {placement.tensorflow}"
    )
    remedy = 'set tensorflow = "{stated}", or choose another image'
    reads = ("models.{placement.variant.model}.image",)

    def find_problems(self, placement: Placement) -> Findings:
        image = parse_own_image(placement.model.image or "")
        number = re.match(r"\d+\.\d+", image.tag) if image else None
        if image is None or number is None or "tensorflow" not in image.repository:
            return
        other = images.parse_version(number[0]) != images.parse_version(placement.tensorflow)
        if other and number[0] in images.list_versions():
            yield self.build_finding(given=placement.tensorflow, image=image, stated=number[0])


class ImageOwnMovingTag(OwnImageRule, severity=Severity.WARNING):
    """Instances that scaling adds pull the image again: if the tag has moved, they run another image.

    Source: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
    """

    problem = "the tag {image.tag!r} may point to a different image later"
    remedy = "write @sha256:… or a tag with a version"

    def find_problems(self, key: str, address: str, image: Image | None) -> Findings:
        if image is not None and image.tag in MOVING:
            yield self.build_finding(key)


class ImageDevice(VariantRule, acknowledgeable=True):
    """A GPU image fails at start on a CPU instance; a CPU image leaves a paid GPU idle.

    Source: the device in the tag, which AWS's own images have too,
    https://github.com/aws/deep-learning-containers/blob/master/available_images.md
    """

    key = "instance_type"
    remedy = "change the image or the instance type"
    reads = ("models.{placement.variant.model}.image",)

    def find_problems(self, placement: Placement) -> Findings:
        image, instance = parse_own_image(placement.model.image or ""), placement.instance
        devices = sorted(_split_words(image) & {"cpu", "gpu"}) if image else []
        if len(devices) == 1 and devices[0] != instance.device:
            problem = f"the image is built for a {devices[0].upper()} by its name, but {instance.name} is a "
            problem += f"{instance.device.upper()} type"
            yield self.build_finding(problem=problem, given=instance.name)
