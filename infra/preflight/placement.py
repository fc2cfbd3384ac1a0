"""A variant on its machine: what the rules about machines look at."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.catalog import images
from infra.catalog.instances import Instance
from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from infra.parameters.model import Model, served
from infra.parameters.variant import Variant, machine_of
from infra.policy.container import ContainerSettings
from infra.policy.derived_settings import Choice, derive
from infra.policy.hosting import newest_version
from infra.policy.sizing import SERVERLESS_DISK_GB, Served, start_seconds


@dataclass(frozen=True, kw_only=True)
class Placement:
    """One variant whose instance type and model are known."""

    name: str
    variant: Variant
    model: Model
    instance: Instance
    tensorflow: str
    """Of the image, as 2.20."""
    served: Served
    settings: ContainerSettings
    """As they will be deployed, with what was chosen where the file says nothing."""

    def key(self, name: str) -> str:
        """`name` inside the variant's table."""
        return f"variants.{self.name}.{name}"

    @property
    def machine_key(self) -> str:
        """What says how large its machine is."""
        serverless = self.variant.serverless is not None
        return self.key("serverless.memory_mib" if serverless else "instance_type")

    @property
    def volume_gb(self) -> int | None:
        """Of the disk, where it is not the machine's own."""
        return self.variant.volume_gb if self.variant.serverless is None else SERVERLESS_DISK_GB

    @property
    def start_seconds(self) -> float | None:
        """From the decision to add an instance to its first answer, estimated."""
        return start_seconds(self.served, processes=self.processes)

    @property
    def gpus(self) -> int:
        """GPUs that the image divides among its processes: none in multi-model mode, which does not."""
        return 0 if self.served.multi_model else self.instance.gpus

    @property
    def processes(self) -> int:
        return self.settings.tfs_processes or 1

    @property
    def workers(self) -> int:
        """0 without code: there is no Gunicorn then."""
        return 0 if self.served.has_code is False else self.settings.gunicorn_workers or 1


def choices(placement: Placement) -> tuple[Choice, ...]:
    """Every setting of its container, with where it comes from and why."""
    return derive(
        placement.variant.container, instance=placement.instance, served=placement.served
    ).choices


def placements(loaded: Loaded, environment: Environment) -> tuple[Placement, ...]:
    """Those variants of which something can be said; what is unknown is another rule's finding."""
    return tuple(_placements(loaded, environment))


def _placements(loaded: Loaded, environment: Environment) -> Iterator[Placement]:
    for name, variant in environment.variants.items():
        instance = machine_of(variant)
        model = environment.models.get(variant.model)
        if instance is None or model is None:
            continue
        known = served(environment.models, variant.model, loaded.root)
        stated = model.tensorflow if model.tensorflow in images.versions() else None
        yield Placement(
            name=name,
            variant=variant,
            model=model,
            instance=instance,
            tensorflow=stated or newest_version(instance),
            served=known,
            settings=derive(variant.container, instance=instance, served=known).settings,
        )
