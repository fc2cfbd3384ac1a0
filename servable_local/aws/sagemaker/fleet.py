"""The running variants of one endpoint configuration."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from servable_local.aws.sagemaker.container import Container
from servable_local.aws.sagemaker.target_models import TargetModels
from servable_local.aws.sagemaker.turns import Turns
from servable_local.aws.sagemaker.utilisation import Utilisation


@dataclass
class Variant:
    """One variant that answers: a single container, whatever its instance count says."""

    name: str
    weight: float
    instance_count: int
    image: str
    container: Container
    models: TargetModels | None = None  # in multi-model mode
    serverless: Mapping[str, int] | None = None  # ServerlessConfig, in the place of a count
    utilisation: Utilisation = field(default_factory=Utilisation)


class Fleet:
    """Variants of one endpoint configuration that serve together, and go together."""

    def __init__(
        self,
        config_name: str,
        variants: Sequence[Variant],
        archives: Path,
        shadows: Sequence[Variant] = (),
    ) -> None:
        """`shadows` get copies of requests, and nobody gets their answers."""
        self.config_name = config_name
        self.shadows = {variant.name: variant for variant in shadows}
        self.variants = {variant.name: variant for variant in variants}
        self._archives = archives
        self._turns, self._copies = Turns(), Turns()

    @property
    def instance_count(self) -> int:
        """What the endpoint is said to have, at least one."""
        return max(1, sum(variant.instance_count for variant in self.variants.values()))

    def choose(self) -> Variant:
        """By weight, as SageMaker routes."""
        weights = {name: variant.weight for name, variant in self.variants.items()}
        return self.variants[self._turns.next(weights)]

    def copied_to(self, variant: Variant) -> Variant | None:
        """The shadow whose turn it is: the share of requests that its weight is of the other's."""
        for shadow in self.shadows.values():
            share = min(1.0, shadow.weight / variant.weight) if variant.weight else 0.0
            if self._copies.next({"copy": share, "none": 1 - share}) == "copy":
                return shadow
        return None

    def everybody(self) -> list[Variant]:
        """Shadows too."""
        return [*self.variants.values(), *self.shadows.values()]

    def retain(self, old: "Fleet", kinds: frozenset[str]) -> None:
        """Takes over counts and weights: DesiredInstanceCount, DesiredWeight."""
        was = {variant.name: variant for variant in old.everybody()}
        for variant in self.everybody():
            before = was.get(variant.name)
            if before is not None and "DesiredInstanceCount" in kinds:
                variant.instance_count = before.instance_count
            if before is not None and "DesiredWeight" in kinds:
                variant.weight = before.weight

    def close(self) -> None:
        """Ends every container. Idempotent."""
        for variant in self.everybody():
            variant.container.close()
        shutil.rmtree(self._archives, ignore_errors=True)
