"""The container images: is there one, here, for this machine?"""

import re
from collections.abc import Iterator

from infra.catalog import images
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.parameters.variant import machine_of
from infra.policy.hosting import newest_version, runs
from infra.preflight.placement import Placement
from infra.preflight.rule import Rule, VariantRule


class ImageUnknown(Rule):
    """The endpoint fails when its image cannot be pulled, minutes after the deployment began.

    Source: infra/catalog/images.json
    """

    id = "image-unknown"
    example = 'models.ranker.tensorflow = "2.21"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            known = images.versions()
            short = [one for one in known if one.count(".") == 1]
            key = f"models.{name}.tensorflow"
            if model.image is not None and model.tensorflow is None:
                continue
            if model.tensorflow is None:
                yield from self._region(loaded, environment, name)
            elif model.tensorflow not in known:
                yield self.finding(
                    loaded,
                    key,
                    model.tensorflow,
                    f"there is no image for TensorFlow {model.tensorflow}",
                    allowed=", ".join(short),
                    remedy=f"did you mean {_closest(model.tensorflow, short)}?",
                )
            elif model.image is None and environment.region not in images.regions(model.tensorflow):
                yield self.finding(
                    loaded,
                    key,
                    model.tensorflow,
                    f"no image for TensorFlow {model.tensorflow} in {environment.region}",
                    allowed=", ".join(images.regions(model.tensorflow)),
                    remedy="change region or tensorflow",
                )

    def _region(self, loaded: Loaded, environment: Environment, name: str) -> Iterator[Finding]:
        """The version is ours to choose: the region must have whichever it becomes."""
        for variant in environment.variants.values():
            instance = machine_of(variant)
            if variant.model != name or instance is None:
                continue
            version = newest_version(instance)
            if environment.region not in images.regions(version):
                yield self.finding(
                    loaded,
                    "region",
                    environment.region,
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

    id = "image-ended"
    severity = Severity.WARNING
    acknowledgeable = True
    example = 'models.ranker.tensorflow = "2.19"'

    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        version, ended = placement.tensorflow, images.ended(placement.tensorflow)
        if ended is not None and placement.model.image is None:
            short = [one for one in images.versions() if one.count(".") == 1]
            patched = [
                one for one in short if images.ended(one) is None and runs(one, placement.instance)
            ]
            yield self.finding(
                loaded,
                f"models.{placement.variant.model}.tensorflow",
                placement.model.tensorflow,
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

    id = "image-gpu-too-old"
    example = """\
models.ranker.tensorflow = "2.20"
variants.primary.instance_type = "ml.p2.xlarge\""""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
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
                    loaded,
                    f"models.{variant.model}.tensorflow",
                    model.tensorflow,
                    f"the image of TensorFlow {model.tensorflow} (CUDA "
                    f"{images.cuda(model.tensorflow) or 'not documented'}) does not run on the "
                    f"{instance.gpu} of {instance.name} in variant {name}",
                    allowed=f"{newest} (CUDA {images.cuda(newest)})",
                    remedy=f"set tensorflow to {newest}, or choose {instance.successor}",
                )
