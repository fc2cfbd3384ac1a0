"""Why an environment is deployed as it is: every setting that was chosen, with its reason."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.catalog.prices import price
from infra.parameters.environment import Environment
from infra.parameters.loading import Loaded
from infra.policy.container import Batching
from infra.policy.hosting import driver_for
from infra.policy.sizing import (
    instances_for,
    memory,
    start_seconds,
    usd_per_month,
)
from infra.policy.wait_time import download_timeout_seconds, startup_timeout_seconds
from infra.preflight.placement import Placement, choices, placements
from servable.plan.scaling_lines import scaling_lines
from servable.plan.update_lines import update_lines


@dataclass(frozen=True)
class Line:
    """One setting of one variant."""

    variant: str
    name: str
    value: str
    origin: str
    """file, derived, image (left to it), or sizing (computed, not set)."""
    reason: str


def explained(loaded: Loaded) -> list[Line]:
    """Of every variant whose machine and model are known; an unreadable file has none."""
    if loaded.draft is None:
        return []
    found: list[Line] = []
    for one in placements(loaded, loaded.draft):
        for choice in choices(one):
            if isinstance(choice.value, Batching):
                found += _batching(one, choice.value, choice.reason)
                continue
            shown = _shown(choice.value)
            found.append(Line(one.name, choice.name, shown, choice.origin, choice.reason))
        found += _machine(one)
        found += _sizes(one, loaded.draft.region, _peak(loaded.draft, one))
        found += [Line(one.name, *said) for said in scaling_lines(loaded.draft, one)]
        if one.variant.serverless is None:
            found += [Line(one.name, *said) for said in update_lines(loaded.draft, one)]
    return found


def _batching(one: Placement, chosen: Batching, reason: str) -> Iterator[Line]:
    written = one.variant.container.batching
    stated = written.model_fields_set if written else set()
    for name, value in chosen:
        if name in stated:
            origin, why = "file", "from the file"
        elif name in ("batch_threads", "max_enqueued_batches"):
            origin, why = "derived", reason
        else:
            origin, why = "image", "the image's own default"
        yield Line(one.name, f"batching.{name}", str(value), origin, why)


def _peak(environment: Environment, one: Placement) -> float | None:
    peak, weights = environment.traffic.peak_rps, environment.production_variants.values()
    total = sum(variant.weight for variant in weights)
    return None if peak is None or not total else peak * one.variant.weight / total


def _machine(one: Placement) -> Iterator[Line]:
    stated = one.model.tensorflow is not None
    yield Line(
        one.name,
        "tensorflow",
        one.tensorflow,
        "file" if stated else "derived",
        "from the file" if stated else f"the newest image that {one.instance.name} can run",
    )
    if one.instance.gpus:
        ami = one.variant.inference_ami
        why = "from the file" if ami else f"the oldest driver that carries {one.tensorflow}'s CUDA"
        chosen = ami or driver_for(one.tensorflow)
        origin = "file" if ami else "derived"
        yield Line(one.name, "inference_ami", _shown(chosen), origin, why)
    if one.variant.serverless is not None:
        return  # it has the time that SageMaker gives it
    timeouts = {
        "download_timeout_seconds": download_timeout_seconds(one.served),
        "startup_timeout_seconds": startup_timeout_seconds(one.served, processes=one.processes),
    }
    for name, value in timeouts.items():
        given = getattr(one.variant, name)
        reason = "twice the estimate" if value else "SageMaker's own is enough for this model"
        if given is not None:
            yield Line(one.name, name, str(given), "file", "from the file")
        else:
            yield Line(one.name, name, _shown(value), "derived" if value else "image", reason)


def _sizes(one: Placement, region: str, rps: float | None) -> Iterator[Line]:
    """`rps`: its share of the traffic at the peak."""
    used = memory(one.instance, one.served, processes=one.processes, workers=one.workers)
    if used is not None:
        yield Line(
            one.name,
            "memory",
            f"{used.needed_gib:.1f} GiB",
            "sizing",
            f"servers {used.servers_gib:.1f}, workers {used.workers_gib:.1f}, system "
            f"{used.system_gib:.1f} of {one.instance.memory_gib:g} GiB",
        )
    if one.variant.serverless is not None:
        why = "by the request: memory, time and what is provisioned"
        yield Line(one.name, "cost", "of use", "sizing", why)
        return
    start = start_seconds(one.served, processes=one.processes)
    if start is not None:
        why = "boot, download, unpack and load, estimated"
        yield Line(one.name, "start", f"{start:.0f} s", "sizing", why)
    most = one.variant.most_instances
    scaling = one.variant.scaling
    if scaling is not None and scaling.max_rps_per_instance is not None and rps is not None:
        needed = instances_for(
            rps,
            max_rps_per_instance=scaling.max_rps_per_instance,
            safety_factor=scaling.safety_factor,
        )
        why = f"{rps:g} requests/s / ({scaling.max_rps_per_instance:g} x {scaling.safety_factor:g})"
        yield Line(one.name, "instances at the peak", str(needed), "sizing", why)
    row = price(one.instance.name, region)
    cost = "unknown" if row is None else f"{usd_per_month(most, row.usd_per_hour):,.0f} $ a month"
    said = (
        f"no source states a price for {one.instance.name}"
        if row is None
        else f"at most, {most} x {row.usd_per_hour:g} $/h x 720 h; price of {row.as_of}, {row.region}"
    )
    yield Line(one.name, "cost", cost, "sizing", said)


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
