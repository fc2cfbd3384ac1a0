"""The machine to begin with: the cheapest whose price is known and that holds the model."""

from pathlib import Path

from infra.catalog.availability import regions_of
from infra.catalog.instances import Instance, instances
from infra.catalog.prices import price
from infra.policy.container import ContainerSettings
from infra.policy.derived_settings import derive
from infra.policy.sizing import Served, memory
from model_packaging.refusal import PackagingError

MIB_PER_GIB = 1024
# Room for requests in flight and for the next, somewhat larger, version of the model.
MEMORY_SHARE = 0.7


def first_machine(size_gib: float, region: str) -> tuple[Instance, str]:
    """The cheapest with a known price, that is in the region, that holds the model with room."""
    served = Served(model_gib=size_gib)
    fitting = []
    for one in instances().values():
        row = price(one.name, region)
        if one.gpus or one.burstable or one.successor or one.architecture != "x86_64":
            continue
        if row is None or region not in regions_of(one.name):
            continue
        processes = derive(ContainerSettings(), instance=one, served=served).settings.tfs_processes
        used = memory(one, served, processes=processes or 1, workers=0)
        if used is not None and used.needed_gib <= MEMORY_SHARE * one.memory_gib:
            fitting.append((row.usd_per_hour, one.vcpus, one.name, used.needed_gib, row.as_of))
    if not fitting:
        problem = f"no CPU instance of the catalog in {region} holds {size_gib:.1f} GiB"
        raise PackagingError(
            Path("init"), problem, "see examples/large_models for GPUs and splitting"
        )
    usd, vcpus, name, needed, as_of = min(fitting)
    why = (
        f"the cheapest CPU machine ({usd:g} $/h of {as_of}) that holds the model of {shown_size(size_gib)} "
        f"with room: {needed:.1f} of {instances()[name].memory_gib:g} GiB; {vcpus} vCPUs. "
        "Measure before production: `servable tune`"
    )
    return instances()[name], why


def shown_size(gib: float) -> str:
    """As people say it."""
    if gib >= 1:
        return f"{gib:.2f} GiB"
    mib = gib * MIB_PER_GIB
    return f"{mib:.1f} MiB" if mib >= 1 else f"{mib * MIB_PER_GIB:.0f} KiB"
