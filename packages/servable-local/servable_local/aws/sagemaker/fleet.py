"""The running variants of one endpoint configuration, and how they are started."""

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from servable_local.aws.clock import Clock
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
    list_instance_types,
)
from servable_local.aws.sagemaker.model_data import (
    TargetModels,
    fetch_model_data,
    find_data_url,
    merge_package,
)
from servable_local.aws.sagemaker.published_metrics import Utilization
from servable_local.container.image_code import parse_image_version
from servable_local.container.settings import MULTI_MODEL

# SageMaker's own default for containerStartupHealthCheckTimeoutInSeconds is not documented;
# a local start takes about 6 s.
_READY_TIMEOUT_SECONDS = 60.0
_ONLY = "the local AWS serves only models with exactly one container with model data"


class Host:
    """What an account and Region provides its endpoints, components, and jobs.

    `folder` takes the containers' temporary archives.
    """

    aws: Loopback
    clock: Clock
    launch: Launch
    folder: Path
    logs: ContainerLogs
    shortage: Shortage
    most_containers: int

    def find_model(self, name: str) -> Mapping[str, Any] | None:
        """Return a model's CreateModel request, or None if it doesn't exist."""
        raise NotImplementedError


class Turns:
    """Smooth weighted round robin, as in NGINX: deterministic and evenly mixed.

    In each turn all names gain their weight; the name with the highest total is next, and loses
    the sum of the weights. With weights 3 and 1: a a b a. AWS chooses at random; taking turns
    gives the same shares, and tests with the same result.
    """

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}
        self._lock = threading.Lock()

    def choose_next(self, weights: Mapping[str, float]) -> str:
        """Choose one of `weights`, which may differ between calls. All zero means all equal."""
        if not any(weight > 0 for weight in weights.values()):
            weights = dict.fromkeys(weights, 1.0)
        with self._lock:
            gained = weights.items()
            credit = {name: self._credit.get(name, 0.0) + weight for name, weight in gained}
            able = [name for name in credit if weights[name] > 0]
            chosen = max(able, key=lambda name: credit[name])
            credit[chosen] -= sum(weights.values())
            self._credit = credit
            return chosen


@dataclass
class HostedVariant:
    """A variant that serves requests.

    With instance pools, its containers run the model of the first type that was available.
    """

    name: str
    weight: float
    image: str
    instances: VariantInstances
    models: TargetModels | None = None  # in multi-model mode
    placement: CopyPlacement | None = None  # of inference components, instead of a model
    serverless: Mapping[str, int] | None = None  # ServerlessConfig, instead of a count
    _utilizations: dict[int, Utilization] = field(default_factory=dict)
    _turns: Turns = field(default_factory=Turns)

    def measure_utilization(self) -> Iterator[tuple[dict[str, float], list[str]]]:
        """Yield ({metric: percent}, instance types) of each container since the last call.

        The types are those of the instances that it represents, one by one; none without pools.
        """
        before, self._utilizations = self._utilizations, {}
        types = [kind for kind, count in self.pools.items() for _ in range(count)]
        containers = list(self.instances.containers)
        for number, container in enumerate(containers):
            look = self._utilizations[id(container)] = before.get(id(container)) or Utilization()
            yield look.measure(container), types[number :: len(containers)]

    @property
    def pools(self) -> dict[str, int]:
        """Return instances by type; empty without instance pools."""
        by_type = dict(self.instances.by_type)
        return by_type if len(by_type) > 1 else {}

    def choose_instance_type(self) -> tuple[str, int] | None:
        """Choose the type for the next request. Return it with its count; None without pools."""
        pools = self.pools
        weights = {kind: float(count) for kind, count in pools.items() if count}
        kind = self._turns.choose_next(weights) if weights else None
        return None if kind is None else (kind, pools[kind])


class Fleet:
    """The variants of one endpoint configuration, which serve together and end together."""

    def __init__(
        self,
        config_name: str,
        variants: Sequence[HostedVariant],
        archives: Path,
        shadows: Sequence[HostedVariant] = (),
    ) -> None:
        """Initialize. `shadows` get copies of requests; their responses are discarded."""
        self.config_name = config_name
        self.shadows = {variant.name: variant for variant in shadows}
        self.variants = {variant.name: variant for variant in variants}
        self._archives = archives
        self._turns, self._copies = Turns(), Turns()

    @property
    def instance_count(self) -> int:
        """Return the endpoint's instance count: the sum of desired counts, at least 1."""
        return max(1, sum(variant.instances.desired for variant in self.variants.values()))

    def choose_variant(self) -> HostedVariant:
        """Choose a variant by weight, as SageMaker routes."""
        weights = {name: variant.weight for name, variant in self.variants.items()}
        return self.variants[self._turns.choose_next(weights)]

    def choose_shadow(self, variant: HostedVariant) -> HostedVariant | None:
        """Choose the shadow for a copy, if any; its share is its weight over the variant's."""
        for shadow in self.shadows.values():
            share = min(1.0, shadow.weight / variant.weight) if variant.weight else 0.0
            if self._copies.choose_next({"copy": share, "none": 1 - share}) == "copy":
                return shadow
        return None

    def list_variants(self) -> list[HostedVariant]:
        """Return all variants, including shadows."""
        return [*self.variants.values(), *self.shadows.values()]

    def retain(self, old: "Fleet", kinds: frozenset[str]) -> None:
        """Take over from `old`: DesiredInstanceCount, DesiredWeight, as `kinds` lists."""
        by_name = {variant.name: variant for variant in self.list_variants()}
        for before in old.list_variants():
            if (variant := by_name.get(before.name)) is None:
                continue
            if "DesiredInstanceCount" in kinds:
                variant.instances.set_initial_count(before.instances.desired)
            if "DesiredWeight" in kinds:
                variant.weight = before.weight

    def close(self) -> None:
        """End every container. Idempotent."""
        for variant in self.list_variants():
            variant.instances.close()
        shutil.rmtree(self._archives, ignore_errors=True)


@dataclass(frozen=True)
class StartableModel:
    """A model with startable containers: its image, the URL of its data, multi-model mode."""

    image: str
    url: str | None
    many: bool
    start: Callable[[], Container]


@dataclass(frozen=True)
class FleetLauncher:
    """A launcher of the variants of one endpoint. `log_group`: where their output is written."""

    host: Host
    log_group: str

    def start(self, config: Mapping[str, Any]) -> Fleet:
        """Start a fleet, and return when every variant responds to its ping.

        Raises `VariantStartError` and leaves nothing.
        """
        archives = Path(tempfile.mkdtemp(prefix="archives-", dir=self.host.folder))
        following = config.get("ShadowProductionVariants", [])
        specifications = [*config["ProductionVariants"], *following]
        started: list[HostedVariant] = []
        failures: list[str] = []
        with ThreadPoolExecutor(max_workers=max(1, len(specifications))) as pool:
            starts = [pool.submit(self._start_variant, spec, archives) for spec in specifications]
            for future in starts:
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

    def _start_variant(self, specification: Mapping[str, Any], archives: Path) -> HostedVariant:
        name = specification["VariantName"]
        types = list_instance_types(specification)
        first = self.host.shortage.find_available(types)
        if types and first is None:
            raise VariantStartError(NO_CAPACITY)
        model_name = _find_model_name(specification, first)
        if not model_name:
            return _create_component_variant(specification, types, self.host.shortage)
        containers = self.list_containers(model_name)
        served = self.prepare_model(containers, name, archives, specification)
        running = served.start()
        # Models are loaded into one container; a serverless variant has no instances.
        single = served.many or "ServerlessConfig" in specification
        routing = specification.get("RoutingConfig", {}).get("RoutingStrategy")
        instances = VariantInstances(
            [running],
            int(specification.get("InitialInstanceCount", 1)),
            served.start,
            types,
            self.host.shortage,
            most_containers=1 if single else self.host.most_containers,
            least_outstanding=routing == "LEAST_OUTSTANDING_REQUESTS",
        )
        try:
            instances.set_initial_count(instances.desired)
        except Exception:
            instances.close()
            raise
        models = TargetModels(running, served.url or "", aws=self.host.aws, folder=archives / name)
        return HostedVariant(
            name=name,
            weight=float(specification.get("InitialVariantWeight", 1.0)),
            image=served.image,
            instances=instances,
            serverless=specification.get("ServerlessConfig"),
            models=models if served.many else None,
        )

    def list_containers(self, model_name: str) -> Sequence[Mapping[str, Any]]:
        """Return a model's containers. Raises `VariantStartError` for a missing model."""
        model = self.host.find_model(model_name)
        if model is None:
            raise VariantStartError(f'Could not find model "{model_name}".')
        return list_model_containers(model)

    def prepare_model(
        self,
        containers: Sequence[Mapping[str, Any]],
        name: str,
        archives: Path,
        startup: Mapping[str, Any],
    ) -> StartableModel:
        """Prepare a model's containers, with its data in `archives`, without starting any.

        `startup` may have ContainerStartupHealthCheckTimeoutInSeconds. Raises
        `VariantStartError`.
        """
        container = merge_package(containers[0], self.host.aws)
        url = find_data_url(container)
        if self.host.most_containers and (len(containers) != 1 or url is None):
            raise VariantStartError(f"{_ONLY}; variant {name} has a different one.")
        many = container.get("Mode") == "MultiModel"
        path = None
        if self.host.most_containers and url is not None and not many:
            path = fetch_model_data(url, self.host.aws, archives / f"{name}.tar.gz")
        image = container.get("Image", "")
        variables = parse_image_version(image) | container.get("Environment", {})
        variables |= {MULTI_MODEL: "true"} if many else {}  # SageMaker itself sets it
        timeout = "ContainerStartupHealthCheckTimeoutInSeconds"
        ready = {"ready_timeout_seconds": float(startup.get(timeout, _READY_TIMEOUT_SECONDS))}

        def launch(log: Path) -> Process:
            return self.host.launch(path, variables, log=log, **ready)

        def start() -> Container:
            if not self.host.most_containers:
                return Container(NoProcess)
            return Container(lambda: self.host.logs.start_process(launch, self.log_group, name))

        return StartableModel(image, url, many, start)


def list_model_containers(model: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return model.get("Containers") or [model["PrimaryContainer"]]


def _create_component_variant(
    specification: Mapping[str, Any], types: tuple[str, ...], shortage: Shortage
) -> HostedVariant:
    """Create a variant for inference components: counted instances with room for copies."""
    start = partial(Container, NoProcess)
    instances = VariantInstances([], 0, start, types, shortage, most_containers=0)
    instances.set_initial_count(int(specification.get("InitialInstanceCount", 1)))
    return HostedVariant(
        name=specification["VariantName"],
        weight=float(specification.get("InitialVariantWeight", 1.0)),
        image="",
        instances=instances,
        placement=CopyPlacement(instances, specification.get("ManagedInstanceScaling", {})),
    )


def _find_model_name(specification: Mapping[str, Any], instance_type: str | None) -> str:
    """Return the name of the model that the variant runs on this instance type."""
    pools = specification.get("InstancePools", [])
    overrides = {pool["InstanceType"]: pool.get("ModelNameOverride") for pool in pools}
    return str(overrides.get(instance_type) or specification.get("ModelName", ""))
