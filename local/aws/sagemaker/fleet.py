"""The running variants of one endpoint configuration."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local.aws.loopback import Loopback
from local.aws.sagemaker import archive
from local.aws.sagemaker.container import Container
from local.aws.sagemaker.errors import StartError
from local.aws.sagemaker.launching import Launch
from local.aws.sagemaker.turns import Turns
from local.aws.sagemaker.utilisation import Utilisation

# SageMaker's own default for containerStartupHealthCheckTimeoutInSeconds is not documented;
# a local start takes about 6 s.
_READY_TIMEOUT_SECONDS = 60.0
_ONLY = "The embedded AWS serves a model of exactly one container that has model data"


@dataclass
class Variant:
    """One variant that answers: a single container, whatever its instance count says."""

    name: str
    weight: float
    instance_count: int
    image: str
    container: Container
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

    def close(self) -> None:
        """Ends every container. Idempotent."""
        for variant in self.variants.values():
            variant.container.close()
        shutil.rmtree(self._archives, ignore_errors=True)


def start(
    config: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    *,
    aws: Loopback,
    launch: Launch,
    folder: Path,
    endpoint_name: str,
) -> Fleet:
    """Returns when every variant answers its ping; raises `StartError` and leaves nothing.

    `folder` takes the containers' logs, which stay, and their archives, which go.
    """
    archives = Path(tempfile.mkdtemp(prefix="archives-", dir=folder))

    def begin(specification: Mapping[str, Any]) -> Variant:
        name = specification["VariantName"]
        model = models.get(specification.get("ModelName", "").lower())
        if model is None:
            raise StartError(f'Could not find model "{specification.get("ModelName")}".')
        containers = model.get("Containers") or [model["PrimaryContainer"]]
        container = containers[0]
        url = archive.data_url(container)
        if len(containers) != 1 or url is None or container.get("Mode") == "MultiModel":
            raise StartError(f"{_ONLY}; variant {name} has another.")
        path = archive.fetch(url, aws, archives / f"{name}.tar.gz")
        ready_timeout_seconds = float(
            specification.get("ContainerStartupHealthCheckTimeoutInSeconds", _READY_TIMEOUT_SECONDS)
        )
        return Variant(
            name=name,
            weight=float(specification.get("InitialVariantWeight", 1.0)),
            instance_count=int(specification.get("InitialInstanceCount", 1)),
            image=container.get("Image", ""),
            container=Container(
                lambda: launch(
                    path,
                    dict(container.get("Environment", {})),
                    ready_timeout_seconds=ready_timeout_seconds,
                    log=folder / f"{endpoint_name}-{name}.log",
                )
            ),
        )

    specifications = config["ProductionVariants"]
    started: list[Variant] = []
    failures: list[str] = []
    with ThreadPoolExecutor(max_workers=max(1, len(specifications))) as pool:
        for future in [pool.submit(begin, one) for one in specifications]:
            try:
                started.append(future.result())
            except Exception as error:
                failures.append(str(error) or type(error).__name__)
    fleet = Fleet(config["EndpointConfigName"], started, archives)
    if failures:
        fleet.close()
        raise StartError(" ".join(failures))
    return fleet
