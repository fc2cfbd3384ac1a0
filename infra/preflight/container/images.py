"""Rules about AWS's container image: it must exist in the region and run on the instance type."""

import re
from dataclasses import replace
from itertools import chain

from infra.catalog import gpus, images
from infra.catalog.images import own_image
from infra.parameters.finding import Severity, nearest
from infra.parameters.model import Model
from infra.parameters.placement import Placement
from infra.parameters.variant import Variant, machine_of
from infra.policy.hosting import newest_version, runs
from infra.preflight.rule import ContainerRule, EachVariantRule, Findings, ModelRule


class ImageUnknown(ModelRule):
    """The endpoint fails when its image cannot be pulled, minutes after the deployment began.

    Source: infra/catalog/images.json
    """

    example = 'models.ranker.tensorflow = "2.21"'

    def look(self, name: str, model: Model) -> Findings:
        version, key = model.tensorflow, f"models.{name}.tensorflow"
        if version is not None and version not in images.versions():
            short = [other for other in images.versions() if other.count(".") == 1]
            yield self.finding(
                key,
                f"there is no image for TensorFlow {version}",
                allowed=", ".join(short),
                remedy=f"did you mean {_closest(version, short)}?",
            )
        elif model.image is not None:
            return  # your own, which AWS's registries need not have
        elif version is None:
            yield from self._region(name)
        elif self.environment.region not in images.regions(version):
            yield self.finding(
                key,
                f"no image for TensorFlow {version} in {self.environment.region}",
                allowed=", ".join(images.regions(version)),
                remedy=_other_region(self.environment.region, version)
                or "change region or tensorflow",
            )

    def _region(self, name: str) -> Findings:
        """Checks that the region has the version that is chosen if the file names none."""
        variants = [each for each in self.environment.served.values() if each.model == name]
        on_types = chain.from_iterable(variant.on_each_type for variant in variants)
        for instance in filter(None, map(machine_of, on_types)):
            version = newest_version(instance)
            if self.environment.region not in images.regions(version):
                yield self.finding(
                    "region",
                    f"no image for TensorFlow {version} in {self.environment.region}",
                    allowed=", ".join(images.regions(version)),
                    remedy=_other_region(self.environment.region, version)
                    or "change the region, or set tensorflow to a version that it has",
                )
                return


def _other_region(region: str, version: str) -> str | None:
    """Return the remedy for a region that is misspelt; None for one of AWS's."""
    known = {each for each_version in images.versions() for each in images.regions(each_version)}
    close = None if region in known else nearest(region, images.regions(version))
    return close and f'set region = "{close}"'


def _closest(version: str, versions: list[str]) -> str:
    """The version nearest in number: for 2.21 that is 2.20 and not 2.2."""
    numbers = [int(digits[:6]) for digits in re.findall(r"[0-9]+", version)[:2]] or [2]
    numbers += [99] * (2 - len(numbers))

    def distance(other: str) -> tuple[int, int]:
        major, minor = images.number(other)
        return abs(major - numbers[0]), abs(minor - numbers[1])

    return min(versions, key=distance)


class ImageEnded(ContainerRule):
    """After its end of patch an image gets no security fixes.

    Source: infra/catalog/image_facts.json (end_of_patch), compared with that table's own date
    """

    severity = Severity.WARNING
    example = 'models.ranker.tensorflow = "2.19"'

    def look(self, placement: Placement) -> Findings:
        version, ended = placement.tensorflow, images.ended(placement.tensorflow)
        if ended is not None and placement.model.image is None:
            patched = [
                other
                for other in images.versions()
                if other.count(".") == 1
                and images.ended(other) is None
                and runs(other, placement.instance)
            ]
            yield self.finding(
                f"models.{placement.variant.model}.tensorflow",
                f"AWS stopped patching the image of TensorFlow {version} on {ended} or before",
                allowed=", ".join(patched) or f"none runs on the {placement.instance.gpu}",
                remedy=f"set tensorflow to {patched[-1]}"
                if patched
                else f"choose {placement.instance.successor}",
                reads=(placement.key("instance_type"),),
            )


class ImageGpuTooOld(EachVariantRule):
    """CUDA 12 dropped the K80 of ml.p2, and ml.p3 has no driver for it: AWS lists no inference AMI for both.

    The model would load and its first operation fail.
    Source: infra/catalog/gpus.json, infra/catalog/image_facts.json, infra/catalog/inference_amis.json
    """

    example = """\
models.ranker.tensorflow = "2.20"
variants.primary.instance_type = "ml.p2.xlarge\""""

    def look(self, name: str, variant: Variant) -> Findings:
        model = self.environment.models.get(variant.model)
        if model is None or model.image or model.tensorflow not in images.versions():
            return
        for instance in filter(None, map(machine_of, variant.on_each_type)):
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


class ImageCudaTooOld(ContainerRule):
    """An image whose CUDA is older than its GPU has no kernels for it.

    Source: infra/catalog/gpus.json, infra/catalog/image_facts.json; for your own image its tag (cu112)
    """

    # Within a CUDA generation kernels are compiled when the container starts, which takes minutes,
    # and cuDNN and cuBLAS may fail (a warning). An older generation does not support the GPU (an
    # error).

    acknowledgeable = True
    example = """\
models.ranker.tensorflow = "2.3"
variants.primary.instance_type = "ml.g5.xlarge\""""
    remedy = "choose an image with a newer CUDA, or an older instance type"

    def look(self, placement: Placement) -> Findings:
        instance, key = placement.instance, f"models.{placement.variant.model}"
        oldest = gpus.oldest_cuda(instance.gpu or "")
        own = own_image(placement.model.image or "")
        cuda: str | None = images.built_cuda(placement.tensorflow)
        if placement.model.image is not None:
            stated = re.search(r"(?<![a-z0-9])cu(?:da)?(\d\d)\.?(\d)", own.tag) if own else None
            cuda = f"{stated[1]}.{stated[2]}" if stated else None
        if oldest is None or cuda is None or images.number(cuda) >= images.number(oldest):
            return
        finding = self.finding(
            f"{key}.tensorflow" if own is None else f"{key}.image",
            f"the image's CUDA {cuda} has no kernels for the {instance.gpu} of {instance.name}",
            given=cuda,
            allowed=f"CUDA {oldest} or newer, which TensorFlow {newest_version(instance)} has",
            reads=(placement.key("instance_type"),),
        )
        older = images.number(cuda)[0] < images.number(oldest)[0]
        yield finding if older else replace(finding, severity=Severity.WARNING)
