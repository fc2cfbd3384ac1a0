"""The running variants of one endpoint configuration, and how they come to serve."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.container import (
    Container,
    ContainerLogs,
    Launch,
    NoProcess,
    Process,
    VariantStartError,
)
from servable_local.aws.sagemaker.instances import (
    NO_CAPACITY,
    CopyPlacement,
    Shortage,
    VariantInstances,
    instance_types,
)
from servable_local.aws.sagemaker.model_data import (
    TargetModels,
    data_url,
    fetch_model_data,
    of_package,
)
from servable_local.aws.sagemaker.published_metrics import Utilisation
from servable_local.container.image_code import version_of_image
from servable_local.container.settings import MULTI_MODEL

# SageMaker's own default for containerStartupHealthCheckTimeoutInSeconds is not documented;
# a local start takes about 6 s.
_READY_TIMEOUT_SECONDS = 60.0
_ONLY = "the local AWS serves a model of exactly one container that has model data"


class Turns:
    """Smooth weighted round robin, as in NGINX: deterministic and evenly mixed.

    In each turn all names gain their weight; the name with the highest total is next, and pays the
    sum of the weights. With weights 3 and 1: a a b a. AWS draws lots; taking turns gives the same
    shares, and a test the same answer.
    """

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}
        self._lock = threading.Lock()

    def next(self, weights: Mapping[str, float]) -> str:
        """One of `weights`, which may differ from call to call. All zero counts as all equal."""
        if not any(weight > 0 for weight in weights.values()):
            weights = dict.fromkeys(weights, 1.0)
        with self._lock:
            credit = {
                name: self._credit.get(name, 0.0) + weight for name, weight in weights.items()
            }
            able = [name for name in credit if weights[name] > 0]
            chosen = max(able, key=lambda name: credit[name])
            credit[chosen] -= sum(weights.values())
            self._credit = credit
            return chosen


@dataclass
class HostedVariant:
    """One variant that answers.

    With instance pools its containers run the model of the first type that was to be had.
    """

    name: str
    weight: float
    image: str
    instances: VariantInstances
    models: TargetModels | None = None  # in multi-model mode
    placement: CopyPlacement | None = None  # of inference components, in the place of a model
    serverless: Mapping[str, int] | None = None  # ServerlessConfig, in the place of a count
    _utilisations: dict[int, Utilisation] = field(default_factory=dict)
    _turns: Turns = field(default_factory=Turns)

    def utilisation(self) -> Iterator[tuple[dict[str, float], list[str]]]:
        """({metric: percent}, instance types) of each container, since the last look.

        The types are those of the instances that it stands for, one by one; none without pools.
        """
        before, self._utilisations = self._utilisations, {}
        types = [kind for kind, count in self.pools.items() for _ in range(count)]
        containers = list(self.instances.containers)
        for number, container in enumerate(containers):
            look = self._utilisations[id(container)] = before.get(id(container)) or Utilisation()
            yield look.look(container), types[number :: len(containers)]

    @property
    def pools(self) -> dict[str, int]:
        """Instances by type; empty without instance pools."""
        by_type = dict(self.instances.by_type)
        return by_type if len(by_type) > 1 else {}

    def answering(self) -> tuple[str, int] | None:
        """The instance type that takes the next request, and how many there are; None without pools."""
        pools = self.pools
        weights = {kind: float(count) for kind, count in pools.items() if count}
        kind = self._turns.next(weights) if weights else None
        return None if kind is None else (kind, pools[kind])


class Fleet:
    """Variants of one endpoint configuration that serve together, and go together."""

    def __init__(
        self,
        config_name: str,
        variants: Sequence[HostedVariant],
        archives: Path,
        shadows: Sequence[HostedVariant] = (),
    ) -> None:
        """`shadows` get copies of requests, and nobody gets their answers."""
        self.config_name = config_name
        self.shadows = {variant.name: variant for variant in shadows}
        self.variants = {variant.name: variant for variant in variants}
        self._archives = archives
        self._turns, self._copies = Turns(), Turns()

    @property
    def instance_count(self) -> int:
        """Instance count of the endpoint: the sum of the variants' desired counts, at least 1."""
        return max(1, sum(variant.instances.desired for variant in self.variants.values()))

    def choose(self) -> HostedVariant:
        """By weight, as SageMaker routes."""
        weights = {name: variant.weight for name, variant in self.variants.items()}
        return self.variants[self._turns.next(weights)]

    def copied_to(self, variant: HostedVariant) -> HostedVariant | None:
        """The shadow whose turn it is: the share of requests that its weight is of the other's."""
        for shadow in self.shadows.values():
            share = min(1.0, shadow.weight / variant.weight) if variant.weight else 0.0
            if self._copies.next({"copy": share, "none": 1 - share}) == "copy":
                return shadow
        return None

    def everybody(self) -> list[HostedVariant]:
        """Shadows too."""
        return [*self.variants.values(), *self.shadows.values()]

    def retain(self, old: "Fleet", kinds: frozenset[str]) -> None:
        """Takes over counts and weights: DesiredInstanceCount, DesiredWeight."""
        by_name = {variant.name: variant for variant in self.everybody()}
        for before in old.everybody():
            if (variant := by_name.get(before.name)) is None:
                continue
            if "DesiredInstanceCount" in kinds:
                variant.instances.retain(before.instances.desired)
            if "DesiredWeight" in kinds:
                variant.weight = before.weight

    def close(self) -> None:
        """Ends every container. Idempotent."""
        for variant in self.everybody():
            variant.instances.close()
        shutil.rmtree(self._archives, ignore_errors=True)


@dataclass(frozen=True)
class StartableModel:
    """A model whose containers can be started: its image, the address of its data, multi-model mode."""

    image: str
    url: str | None
    many: bool
    start: Callable[[], Container]


@dataclass(frozen=True, kw_only=True)
class FleetLauncher:
    """Starts the variants of one endpoint.

    `model` finds the CreateModel request of a model by its name, in any case of the name.
    `folder` takes the containers' archives, which go. `log_group`: where their output is written.
    """

    model: Callable[[str], Mapping[str, Any] | None]
    aws: Loopback
    launch: Launch
    folder: Path
    log_group: str
    logs: ContainerLogs
    shortage: Shortage
    most_containers: int = 1

    def start(self, config: Mapping[str, Any]) -> Fleet:
        """Returns when every variant of the configuration answers its ping.

        Raises `VariantStartError` and leaves nothing.
        """
        archives = Path(tempfile.mkdtemp(prefix="archives-", dir=self.folder))
        following = config.get("ShadowProductionVariants", [])
        specifications = [*config["ProductionVariants"], *following]
        started: list[HostedVariant] = []
        failures: list[str] = []
        with ThreadPoolExecutor(max_workers=max(1, len(specifications))) as pool:
            for future in [pool.submit(self._variant, spec, archives) for spec in specifications]:
                try:
                    started.append(future.result())
                except Exception as error:
                    failures.append(str(error) or type(error).__name__)
        names = {specification["VariantName"] for specification in following}
        fleet = Fleet(
            config["EndpointConfigName"],
            [variant for variant in started if variant.name not in names],
            archives,
            [variant for variant in started if variant.name in names],
        )
        if failures:
            fleet.close()
            raise VariantStartError(" ".join(failures))
        return fleet

    def _variant(self, specification: Mapping[str, Any], archives: Path) -> HostedVariant:
        name = specification["VariantName"]
        types = instance_types(specification)
        first = self.shortage.first_free(types)
        if types and first is None:
            raise VariantStartError(NO_CAPACITY)
        model_name = _model_name(specification, first)
        if not model_name:
            return _without_model(specification, types, self.shortage)
        model = self.model(model_name)
        if model is None:
            raise VariantStartError(f'Could not find model "{model_name}".')
        served = self.served(
            model.get("Containers") or [model["PrimaryContainer"]], name, archives, specification
        )
        running = served.start()
        # Models are loaded into one container; a serverless variant has no instances.
        single = served.many or "ServerlessConfig" in specification
        routing = specification.get("RoutingConfig", {}).get("RoutingStrategy")
        instances = VariantInstances(
            [running],
            int(specification.get("InitialInstanceCount", 1)),
            served.start,
            types,
            self.shortage,
            most_containers=1 if single else self.most_containers,
            least_outstanding=routing == "LEAST_OUTSTANDING_REQUESTS",
        )
        try:
            instances.retain(instances.desired)
        except Exception:
            instances.close()
            raise
        models = TargetModels(running, served.url or "", aws=self.aws, folder=archives / name)
        return HostedVariant(
            name=name,
            weight=float(specification.get("InitialVariantWeight", 1.0)),
            image=served.image,
            instances=instances,
            serverless=specification.get("ServerlessConfig"),
            models=models if served.many else None,
        )

    def served(
        self,
        containers: Sequence[Mapping[str, Any]],
        name: str,
        archives: Path,
        startup: Mapping[str, Any],
    ) -> StartableModel:
        """A model's containers, its data fetched into `archives`; nothing is started yet.

        `startup` may have ContainerStartupHealthCheckTimeoutInSeconds. Raises `VariantStartError`.
        """
        container = of_package(containers[0], self.aws)
        url = data_url(container)
        if self.most_containers and (len(containers) != 1 or url is None):
            raise VariantStartError(f"{_ONLY}; variant {name} has another.")
        many = container.get("Mode") == "MultiModel"
        path = None
        if self.most_containers and url is not None and not many:
            path = fetch_model_data(url, self.aws, archives / f"{name}.tar.gz")
        variables = version_of_image(container.get("Image", "")) | container.get("Environment", {})
        variables |= {MULTI_MODEL: "true"} if many else {}  # set by SageMaker, by no template
        ready_timeout_seconds = float(
            startup.get("ContainerStartupHealthCheckTimeoutInSeconds", _READY_TIMEOUT_SECONDS)
        )
        start = partial(self._container, path, variables, ready_timeout_seconds, name)
        return StartableModel(container.get("Image", ""), url, many, start)

    def _container(
        self,
        archive: Path | None,
        variables: Mapping[str, str],
        ready_timeout_seconds: float,
        variant: str,
    ) -> Container:
        if not self.most_containers:
            return Container(NoProcess)

        def launch(log: Path) -> Process:
            return self.launch(
                archive, variables, ready_timeout_seconds=ready_timeout_seconds, log=log
            )

        return Container(lambda: self.logs.start(launch, self.log_group, variant))


def _without_model(
    specification: Mapping[str, Any], types: tuple[str, ...], shortage: Shortage
) -> HostedVariant:
    """A variant for inference components: counted instances, each with room for their copies."""
    instances = VariantInstances(
        [], 0, lambda: Container(NoProcess), types, shortage, most_containers=0
    )
    instances.retain(int(specification.get("InitialInstanceCount", 1)))
    return HostedVariant(
        name=specification["VariantName"],
        weight=float(specification.get("InitialVariantWeight", 1.0)),
        image="",
        instances=instances,
        placement=CopyPlacement(instances, specification.get("ManagedInstanceScaling", {})),
    )


def _model_name(specification: Mapping[str, Any], instance_type: str | None) -> str:
    """The model that the variant runs on this instance type."""
    overrides = {
        pool["InstanceType"]: pool.get("ModelNameOverride")
        for pool in specification.get("InstancePools", [])
    }
    return str(overrides.get(instance_type) or specification.get("ModelName", ""))
