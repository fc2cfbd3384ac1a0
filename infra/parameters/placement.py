"""A placement: a variant with its instance type, its model, and the settings that fit both."""

import math
from dataclasses import dataclass, replace

from infra.catalog import images
from infra.catalog.instances import Instance, instances
from infra.parameters.environment import Environment
from infra.parameters.model import ModelTable, served
from infra.parameters.variant import Component, Routing, Variant, machine_of
from infra.policy.container import ContainerSettings
from infra.policy.derived_settings import Choice, Derived, derive, stated_or
from infra.policy.hosting import EndpointKind, Hosting, driver_for, hosting, newest_version
from infra.policy.sizing import (
    MIB_PER_GIB,
    SERVERLESS_DISK_GB,
    SYSTEM_SHARE,
    Served,
    download_timeout_seconds,
    memory,
    start_seconds,
    startup_timeout_seconds,
)

# The SDK's minimum, and what an ml.g5.xlarge took where it refused 4096:
# https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026),
# https://github.com/huggingface/skills/pull/215 (2026-07)
LEAST_COPY_MIB = 1024


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One variant, or one of its components, whose instance type and model are known."""

    name: str
    """Name in `Environment.served`."""
    variant: Variant
    model: ModelTable
    instance: Instance
    """The instance type; of a component the part of it that a copy's settings are chosen for."""
    tensorflow: str
    """TensorFlow version of the image, for example 2.20."""
    served: Served
    derived: Derived
    kind: EndpointKind
    table: str = "variants"
    """The table of the file that has it: variants, batch, or variants.NAME.components."""
    parts: int = 1
    """Components that share the instance."""
    pool: int | None = None
    """Position of the instance type in instance_pools; None without them."""
    pool_settings: frozenset[str] = frozenset()
    """Settings that the file has for this instance type alone."""

    @property
    def settings(self) -> ContainerSettings:
        """The container's settings as they will be deployed, with defaults for keys that are omitted."""
        return self.derived.settings

    def key(self, name: str) -> str:
        """Dotted key of `name` in the variant's table, or in the pool's for what is the pool's own."""
        table, _, setting = name.partition(".")
        if self.variant.component and table not in Component.model_fields:
            return f"{self.table.removesuffix('.components')}.{name}"
        own = name == "instance_type" or (table == "container" and setting in self.pool_settings)
        pool = "" if self.pool is None or not own else f"instance_pools.{self.pool}."
        return f"{self.table}.{self.name}.{pool}{name}"

    @property
    def host(self) -> str:
        """Name of the variant whose instances it runs on."""
        return self.table.split(".")[1] if self.variant.component else self.name

    @property
    def machine_key(self) -> str:
        """Dotted key that sets the size of the instance or serverless container."""
        serverless = self.variant.serverless is not None
        return self.key("serverless.memory_mib" if serverless else "instance_type")

    @property
    def volume_gb(self) -> int | None:
        """Size of the EBS volume in GB; None if the instance type has local disks."""
        return self.variant.volume_gb if self.variant.serverless is None else SERVERLESS_DISK_GB

    @property
    def start_seconds(self) -> float | None:
        """Seconds from a decision to the first answer, stated or estimated; None if serverless."""
        if not self.kind.has_instances:
            return None
        stated = self.variant.start_seconds
        return stated or start_seconds(self.served, processes=self.processes)

    @property
    def version(self) -> Choice[str]:
        reason = f"the newest image that {self.instance.name} can run"
        return stated_or("tensorflow", self.model.tensorflow, self.tensorflow, reason)

    @property
    def driver(self) -> Choice[str | None]:
        """The AMI of the host, which has the GPU's driver; a value of None means SageMaker's own."""
        ami = driver_for(self.tensorflow, self.instance)
        reason = f"the oldest driver that carries {self.tensorflow}'s CUDA"
        if ami is None:
            name = self.instance.name
            reason = f"none needed for {self.tensorflow}'s CUDA, or none listed for {name}"
        return stated_or("inference_ami", self.variant.inference_ami, ami, reason)

    @property
    def timeouts(self) -> dict[str, Choice[int | None]]:
        """Timeouts of the download and of the container's start; a value of None means SageMaker's own."""
        estimates = {
            "download_timeout_seconds": download_timeout_seconds(self.served),
            "startup_timeout_seconds": startup_timeout_seconds(
                self.served, processes=self.processes
            ),
        }
        reasons = {True: "twice the estimate", False: "SageMaker's own is enough for this model"}
        return {
            name: stated_or(
                name, getattr(self.variant, name), seconds, reasons[seconds is not None]
            )
            for name, seconds in estimates.items()
        }

    @property
    def routing(self) -> Choice[Routing | None]:
        """The routing strategy; a value of None means SageMaker's own."""
        chosen: Routing | None = None
        if self.kind.queued:
            reason = "SageMaker's own: instances take requests from the queue"
        elif self.model.multi_model is not None:
            reason = "SageMaker's own: to where the model is loaded"
        else:
            chosen = "least_outstanding_requests"
            reason = "no request waits behind a slow one while another instance is free"
        return stated_or("routing", self.variant.routing, chosen, reason)

    @property
    def copy_memory_mib(self) -> Choice[int]:
        """Memory that a copy of the variant reserves, as an inference component."""
        need = memory(self.instance, self.served, processes=self.processes, workers=self.workers)
        gib = 0.0 if need is None else need.servers_gib + need.workers_gib
        mib = max(LEAST_COPY_MIB, math.ceil(gib * MIB_PER_GIB))
        reason = f"model servers and workers need {gib:.1f} GiB; at least {LEAST_COPY_MIB} MiB"
        if (component := self.variant.component) is not None:
            return stated_or("memory_mib", component.memory_mib, mib, reason)
        return stated_or("copy_memory_mib", self.variant.copy_memory_mib, mib, reason)

    @property
    def copy_cpus(self) -> Choice[float]:
        """vCPUs that a copy reserves."""
        return cpus_of_copy(self.whole, self.variant.component, self.parts)

    @property
    def copy_gpus(self) -> Choice[int]:
        """GPUs that a copy reserves, each for itself."""
        component, gpus = self.variant.component, self.whole.gpus
        stated = component.gpus if component else None
        reason = f"{gpus} in an instance, in equal parts for components: {self.parts}"
        return stated_or("gpus", stated, gpus // self.parts, reason)

    @property
    def whole(self) -> Instance:
        """All of the instance, of which a component has a part."""
        return instances().get(self.instance.name, self.instance)

    @property
    def gpus(self) -> int:
        """GPUs that the image divides among its processes; 0 in multi-model mode, which does not divide."""
        return 0 if self.served.multi_model else self.instance.gpus

    @property
    def processes(self) -> int:
        return self.settings.tfs_processes or 1

    @property
    def workers(self) -> int:
        """Gunicorn workers; 0 without code, when no Gunicorn runs."""
        return 0 if self.served.has_code is False else self.settings.gunicorn_workers or 1

    def hosting(self, region: str) -> Hosting:
        """Image, driver, variables and timeouts. Raises KeyError for what preflight refuses."""
        return hosting(
            instance=self.instance,
            tensorflow=self.model.tensorflow or self.tensorflow,
            region=region,
            settings=self.settings,
            default_model=self.model.default_name(self.variant.model),
            own_image=self.model.image,
            own_variables=self.variant.environment,
        )


def cpus_of_copy(whole: Instance, component: Component | None, parts: int) -> Choice[float]:
    """vCPUs that a copy reserves of an instance that so many components share.

    A component that has an instance to itself gets the least of which two copies do not share one: what was
    measured for an instance is true of a copy then, which may use all of it.
    """
    if parts == 1:
        cpus, reason = (
            whole.vcpus / 2 + 0.25,
            f"above half of {whole.vcpus}: each has an instance to itself",
        )
    else:
        # In quarters, SageMaker's least, and not more than what the system leaves.
        cpus = max(1, math.floor(4 * (1 - SYSTEM_SHARE) * whole.vcpus / parts)) / 4
        reason = (
            f"an equal part for {parts} components, beside a tenth of {whole.vcpus} for the system"
        )
    return stated_or("cpus", component.cpus if component else None, cpus, reason)


def part_of(whole: Instance, component: Component, parts: int) -> Instance:
    """The part of an instance that a copy's settings are chosen for; all of it if it is shared with none.

    A copy may use more than it reserves, as long as the others do not.
    """
    cpus = cpus_of_copy(whole, component, parts).value
    alone = parts == 1 and component.cpus is None
    gib = None if component.memory_mib is None else component.memory_mib / MIB_PER_GIB
    gpus = whole.gpus // parts if component.gpus is None else min(component.gpus, whole.gpus)
    return replace(
        whole,
        vcpus=whole.vcpus if alone else max(1, min(whole.vcpus, int(cpus))),
        memory_gib=whole.memory_gib / parts if gib is None else min(gib, whole.memory_gib),
        gpus=gpus,
        gpu=whole.gpu if gpus else None,
    )


def placement(environment: Environment, name: str) -> Placement | None:
    """The placement of a variant or component on its preferred instance type.

    None if its type or model is unknown, which a rule reports.
    """
    first = next(iter(placements_of(environment, name)), None)
    return None if first is None or first.pool else first


def placements_of(environment: Environment, name: str) -> tuple[Placement, ...]:
    """The placements of a variant or component on each of its known instance types, the first one first.

    `name` is one of `Environment.served`; a variant that has components has no placement itself.
    """
    table = next((k for k in environment.tables if k.rpartition(".")[2] == name), name)
    host, _, component = table.partition(".components.")
    on_it = environment.served.get(name, environment.variants[host])
    parts = max(1, len(environment.variants[host].components))
    pools, model = on_it.instance_pools, environment.models.get(on_it.model)
    placed: list[Placement] = []
    for number, variant in enumerate(on_it.on_each_type):
        instance = machine_of(variant)
        if instance is None or model is None:
            continue
        if component and variant.component:
            instance = part_of(instance, variant.component, parts)
        sizes = served(environment.models, variant.model)
        stated = model.tensorflow if model.tensorflow in images.versions() else None
        tensorflow = stated or newest_version(instance)
        placed.append(
            Placement(
                name=name,
                variant=variant,
                model=model,
                instance=instance,
                tensorflow=tensorflow,
                served=sizes,
                derived=derive(
                    variant.container, instance=instance, served=sizes, tensorflow=tensorflow
                ),
                kind=environment.kind,
                table=f"variants.{host}.components" if component else "variants",
                parts=parts,
                pool=None if pools is None else number,
                pool_settings=frozenset(pools[number].container.model_fields_set if pools else ()),
            )
        )
    return tuple(placed)


def placements(environment: Environment) -> tuple[Placement, ...]:
    """The placements of all that serve a known model, on each of their known instance types."""
    return tuple(
        placed for name in environment.served for placed in placements_of(environment, name)
    )
