"""The running variants of one endpoint configuration."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from local.aws.sagemaker.container import Container
from local.aws.sagemaker.target_models import TargetModels
from local.aws.sagemaker.turns import Turns
from local.aws.sagemaker.utilisation import Utilisation


@dataclass
class Variant:
    """One variant that answers: a single container, whatever its instance count says."""

    name: str
    weight: float
    instance_count: int
    image: str
    container: Container
    models: TargetModels | None = None  # in multi-model mode
    utilisation: Utilisation = field(default_factory=Utilisation)


class Fleet:
    """Variants of one endpoint configuration that serve together, and go together."""

    def __init__(self, config_name: str, variants: Sequence[Variant], archives: Path) -> None:
        self.config_name = config_name
        self.variants = {variant.name: variant for variant in variants}
        self._archives = archives
        self._turns = Turns()

    @property
    def instance_count(self) -> int:
        """What the endpoint is said to have, at least one."""
        return max(1, sum(variant.instance_count for variant in self.variants.values()))

    def choose(self) -> Variant:
        """By weight, as SageMaker routes."""
        weights = {name: variant.weight for name, variant in self.variants.items()}
        return self.variants[self._turns.next(weights)]

    def retain(self, old: "Fleet", kinds: frozenset[str]) -> None:
        """Takes over counts and weights: DesiredInstanceCount, DesiredWeight."""
        for name, variant in self.variants.items():
            before = old.variants.get(name)
            if before is not None and "DesiredInstanceCount" in kinds:
                variant.instance_count = before.instance_count
            if before is not None and "DesiredWeight" in kinds:
                variant.weight = before.weight

    def close(self) -> None:
        """Ends every container. Idempotent."""
        for variant in self.variants.values():
            variant.container.close()
        shutil.rmtree(self._archives, ignore_errors=True)
