"""A placement: a variant with its instance type, its model, and the settings that fit both."""

import math
from dataclasses import dataclass, replace

from infra.catalog import images
from infra.catalog.instances import Instance, load_instances
from infra.parameters.environment import Environment
from infra.parameters.model import ModelTable, compute_model_sizes
from infra.parameters.variant import Component, Routing, Variant, find_variant_machine
from infra.policy.container import ContainerSettings
from infra.policy.derived_settings import Choice, DerivedSettings, choose_setting, derive_settings
from infra.policy.hosting import (
    EndpointKind,
    Hosting,
    build_hosting,
    find_driver,
    find_newest_version,
)
from infra.policy.sizing import (
    MIB_PER_GIB,
    SERVERLESS_DISK_GB,
    SYSTEM_SHARE,
    MemoryNeed,
    ModelSizes,
    choose_download_timeout,
    choose_startup_timeout,
    compute_memory,
    estimate_start_seconds,
)

# The SDK's minimum, and what an ml.g5.xlarge took where it rejected 4096:
# https://github.com/aws/sagemaker-python-sdk sagemaker/serve/utils/ic_utils.py (2026),
# https://github.com/huggingface/skills/pull/215 (2026-07)
LEAST_COPY_MIB = 1024


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A variant, or one of its components, whose instance type and model are known."""

    name: str
    """Name in `Environment.served`."""
    variant: Variant
    model: ModelTable
    instance: Instance
    """The instance type; of a component the part of it that a copy's settings are chosen for."""
    tensorflow: str
    """TensorFlow version of the image, for example 2.20."""
    served: ModelSizes
    derived: DerivedSettings
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
        """Return the container's settings as deployed, with defaults for omitted keys."""
        return self.derived.settings

    def build_key(self, name: str) -> str:
        """Build the dotted key of `name` in the variant's table, or in its pool's if that has the name."""
        table, _, setting = name.partition(".")
        if self.variant.component and table not in Component.model_fields:
            return f"{self.table.removesuffix('.components')}.{name}"
        own = name == "instance_type" or (table == "container" and setting in self.pool_settings)
        pool = "" if self.pool is None or not own else f"instance_pools.{self.pool}."
        return f"{self.table}.{self.name}.{pool}{name}"

    @property
    def host(self) -> str:
        """Return the name of the variant on whose instances the model runs."""
        return self.table.split(".")[1] if self.variant.component else self.name

    @property
    def machine_key(self) -> str:
        """Return the dotted key that sets the size of the instance or serverless container."""
        serverless = self.variant.serverless is not None
        return self.build_key("serverless.memory_mib" if serverless else "instance_type")

    @property
    def volume_gb(self) -> int | None:
        """Return the size of the EBS volume in GB, if stated, or of a serverless container's disk."""
        return self.variant.volume_gb if self.variant.serverless is None else SERVERLESS_DISK_GB

    @property
    def start_seconds(self) -> float | None:
        """Return the seconds from a scaling decision to a response; None if serverless."""
        if not self.kind.has_instances:
            return None
        stated = self.variant.start_seconds
        return stated or estimate_start_seconds(self.served, processes=self.processes)

    @property
    def version(self) -> Choice[str]:
        reason = f"the newest image that {self.instance.name} can run"
        return choose_setting("tensorflow", self.model.tensorflow, self.tensorflow, reason)

    @property
    def driver(self) -> Choice[str | None]:
        """Return the AMI of the host, with the GPU driver; the value None is SageMaker's own."""
        ami, version = find_driver(self.tensorflow, self.instance), self.tensorflow
        reason = f"the oldest driver that supports {version}'s CUDA"
        if ami is None:
            reason = f"none needed for {version}'s CUDA, or none listed for {self.instance.name}"
        return choose_setting("inference_ami", self.variant.inference_ami, ami, reason)

    @property
    def timeouts(self) -> dict[str, Choice[int | None]]:
        """Return the download and startup timeouts; the value None is SageMaker's own."""
        estimates = {
            "download_timeout_seconds": choose_download_timeout(self.served),
            "startup_timeout_seconds": choose_startup_timeout(
                self.served, processes=self.processes
            ),
        }
        enough = "SageMaker's default is enough for this model"
        return {
            name: choose_setting(
                name,
                getattr(self.variant, name),
                seconds,
                "twice the estimate" if seconds else enough,
            )
            for name, seconds in estimates.items()
        }

    @property
    def routing(self) -> Choice[Routing | None]:
        """Return the routing strategy. The choice's value is None for SageMaker's own."""
        chosen: Routing | None = None
        if self.kind.queued:
            reason = "SageMaker's default: instances read requests from the queue"
        elif self.model.multi_model is not None:
            reason = "SageMaker's default: routes to an instance that has loaded the model"
        else:
            chosen = "least_outstanding_requests"
            reason = "no request waits behind a slow one while another instance is free"
        return choose_setting("routing", self.variant.routing, chosen, reason)

    @property
    def memory_need(self) -> MemoryNeed | None:
        """Return the memory that the model's processes need; None if its size is unknown."""
        processes, workers = self.processes, self.workers
        return compute_memory(self.instance, self.served, processes=processes, workers=workers)

    @property
    def copy_memory_mib(self) -> Choice[int]:
        """Return the memory in MiB that a copy reserves, as an inference component."""
        need = self.memory_need
        gib = 0.0 if need is None else need.servers_gib + need.workers_gib
        mib = max(LEAST_COPY_MIB, math.ceil(gib * MIB_PER_GIB))
        reason = f"model servers and workers need {gib:.1f} GiB; at least {LEAST_COPY_MIB} MiB"
        if (component := self.variant.component) is not None:
            return choose_setting("memory_mib", component.memory_mib, mib, reason)
        return choose_setting("copy_memory_mib", self.variant.copy_memory_mib, mib, reason)

    @property
    def copy_cpus(self) -> Choice[float]:
        """Return the vCPUs that a copy reserves."""
        return choose_copy_cpus(self.whole_instance, self.variant.component, self.parts)

    @property
    def copy_gpus(self) -> Choice[int]:
        """Return the GPUs that a copy reserves for itself."""
        component, gpus = self.variant.component, self.whole_instance.gpus
        stated = component.gpus if component else None
        reason = f"{gpus} in an instance, divided equally among components: {self.parts}"
        return choose_setting("gpus", stated, gpus // self.parts, reason)

    @property
    def whole_instance(self) -> Instance:
        """Return the whole instance, of which a component uses a part."""
        return load_instances().get(self.instance.name, self.instance)

    @property
    def gpus(self) -> int:
        """Return the GPUs that the image divides among processes; 0 in multi-model mode."""
        return 0 if self.served.multi_model else self.instance.gpus

    @property
    def processes(self) -> int:
        return self.settings.tfs_processes or 1

    @property
    def workers(self) -> int:
        """Return the number of Gunicorn workers; 0 without code, when none run."""
        return 0 if self.served.has_code is False else self.settings.gunicorn_workers or 1

    def build_hosting(self, region: str) -> Hosting:
        """Return the image and variables. Raise KeyError for what preflight rejects."""
        return build_hosting(
            instance=self.instance,
            tensorflow=self.model.tensorflow or self.tensorflow,
            region=region,
            settings=self.settings,
            default_model=self.model.default_name(self.variant.model),
            own_image=self.model.image,
            own_variables=self.variant.environment,
        )


def choose_copy_cpus(whole: Instance, component: Component | None, parts: int) -> Choice[float]:
    """Choose the vCPUs that a copy reserves on an instance that `parts` components share.

    A component that has an instance to itself reserves just over half of the vCPUs, so that two
    copies don't share an instance. A stated value takes precedence. A measurement of the instance
    then also applies to a copy, which may use all of it.
    """
    cpus = whole.vcpus / 2 + 0.25
    reason = f"above half of {whole.vcpus}: each copy gets its own instance"
    if parts > 1:
        # In quarters, SageMaker's minimum, and not more than what the system leaves.
        cpus = max(1, math.floor(4 * (1 - SYSTEM_SHARE) * whole.vcpus / parts)) / 4
        share = f"an equal share for {parts} components"
        reason = f"{share}, after a tenth of {whole.vcpus} for the system"
    return choose_setting("cpus", component.cpus if component else None, cpus, reason)


def build_instance_part(whole: Instance, component: Component, parts: int) -> Instance:
    """Return the part of an instance for which a copy's settings are chosen.

    It has all vCPUs if the instance isn't shared and the component states no vCPUs. A copy may
    use more than it reserves, as long as the others don't.
    """
    cpus = choose_copy_cpus(whole, component, parts).value
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


def find_placement(environment: Environment, name: str) -> Placement | None:
    """Return the placement of a variant or component on its preferred instance type, if known."""
    first = next(iter(list_variant_placements(environment, name)), None)
    return None if first is None or first.pool else first


def list_variant_placements(environment: Environment, name: str) -> tuple[Placement, ...]:
    """Return the placements of a variant or component on each known instance type.

    The preferred type is first. `name` is a name in `Environment.serving_variants`. A variant
    that has components has no placement itself.
    """
    table = next((k for k in environment.variants_by_table if k.rpartition(".")[2] == name), name)
    host, _, component = table.partition(".components.")
    on_it = environment.serving_variants.get(name, environment.variants[host])
    parts = max(1, len(environment.variants[host].components))
    pools, model = on_it.instance_pools, environment.models.get(on_it.model)
    if model is None:
        return ()
    sizes = compute_model_sizes(environment.models, on_it.model)
    stated = model.tensorflow if model.tensorflow in images.list_versions() else None
    placed: list[Placement] = []
    for number, variant in enumerate(on_it.variants_per_type):
        instance = find_variant_machine(variant)
        if instance is None:
            continue
        if component and variant.component:
            instance = build_instance_part(instance, variant.component, parts)
        tensorflow = stated or find_newest_version(instance)
        derived = derive_settings(
            variant.container, instance=instance, served=sizes, tensorflow=tensorflow
        )
        placed.append(
            Placement(
                name=name,
                variant=variant,
                model=model,
                instance=instance,
                tensorflow=tensorflow,
                served=sizes,
                derived=derived,
                kind=environment.kind,
                table=f"variants.{host}.components" if component else "variants",
                parts=parts,
                pool=None if pools is None else number,
                pool_settings=frozenset(pools[number].container.model_fields_set if pools else ()),
            )
        )
    return tuple(placed)


def list_placements(environment: Environment) -> tuple[Placement, ...]:
    """Return the placements of all variants and components with a known type and model."""
    return tuple(
        placed
        for name in environment.serving_variants
        for placed in list_variant_placements(environment, name)
    )
