"""Search space of a variant: typed settings on each instance type, without those that could not run there."""

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, placements
from infra.policy.container import Batching, ContainerSettings, is_upstream
from infra.policy.derived_settings import derive
from infra.policy.sizing import memory
from infra.preflight.check import check, check_all, errors
from model_packaging.inputs import wants_ours
from servable.load.load_target import Body
from servable.tune.search.search import rules_of_thumb
from servable.tune.search.space import BATCH_SIZE, INSTANCE_TYPE, Point, Space, Value

TRANSPORT, FROM_BYTES = "transport", "grpc_from_bytes"
# What the handler may relay to the model server's REST port as it is.
RELAYED = ("application/json", "application/jsonlines", "text/csv")
# Sizes of requests so many times apart may be worth two ways.
SIZES_APART = 2.0
# Fewer requests than two at once are no batch.
ENOUGH_AT_ONCE = 2.0
# Beside errors: what a file may say at its own risk, and no search proposes. Requests of a model with
# a fixed first dimension cannot be merged, be it of a signature that nobody calls by default.
NEVER_PROPOSED = frozenset({"batch-fixed-shape"})

# Settings whose rules look at each other are checked together, the others as they are now.
TOGETHER = (
    ("tfs_processes", "gunicorn_workers"),
    (BATCH_SIZE, "batching.timeout_micros"),
    ("inter_op_threads", "intra_op_threads", "tfs_processes"),
    ("onednn",),
    ("omp_threads",),
    (TRANSPORT,),
    (FROM_BYTES,),
)


@dataclass(frozen=True, kw_only=True)
class SettingsGrid:
    values: dict[str, tuple[Value, ...]]
    """setting -> its values, smallest first. Halves and doubles of what the instance has."""
    left_out: dict[str, str]
    """setting -> why it is not tried."""


def grid(loaded: ValidFile, placement: Placement, bodies: Sequence[Body] = ()) -> SettingsGrid:
    """Return the values to try. `bodies`: what is sent; transport is tried only for what is known of them."""
    vcpus, served = placement.instance.vcpus, placement.served
    values: dict[str, tuple[Value, ...]] = {}
    left_out = {}
    if not served.multi_model:
        values["tfs_processes"] = _counts(1, 2, vcpus // 4, vcpus // 2, vcpus)
    if served.has_code is not False:
        values["gunicorn_workers"] = _counts(1, vcpus // 2, vcpus, 2 * vcpus)
    else:
        left_out["gunicorn_workers"] = "the model has no code, so no Gunicorn runs"
    values["inter_op_threads"] = _counts(1, 2, vcpus // 2, vcpus)
    values["intra_op_threads"] = _counts(1, 2, vcpus)
    values["onednn"] = (False, True)
    if not is_upstream(placement.tensorflow):
        values["omp_threads"] = _counts(1, vcpus)
    else:
        left_out["omp_threads"] = f"TensorFlow {placement.tensorflow} has no OpenMP"
    for found in (_batching(loaded, placement), _transport(loaded, placement, bodies)):
        values |= {name: of for name, of in found.items() if not isinstance(of, str)}
        left_out |= {name: why for name, why in found.items() if isinstance(why, str)}
    return SettingsGrid(values=values, left_out=left_out)


def _batching(loaded: ValidFile, placement: Placement) -> Mapping[str, tuple[Value, ...] | str]:
    """Return sizes of a batch, at least the largest request's rows: a larger request is answered 400.

    A file that batches keeps batching: a table that is inherited cannot be taken back by a file.
    """
    written, environment = placement.variant.container.batching, loaded.environment
    rows = environment.traffic.rows_per_request if environment else None
    least = max(rows or 0, written.max_batch_size if written else 0)
    if not least:
        why = (
            "traffic.rows_per_request is not stated, and a batch smaller than a request refuses it"
        )
        return {"batching": why}
    if not written and (at_once := _requests_at_once(loaded, placement)) < ENOUGH_AT_ONCE:
        why = f"at most {at_once:.2g} requests are at one instance at once, by traffic.peak_rps and the alarm"
        return {"batching": why}
    batched, now = (_refused_for(loaded, placement, one) for one in ({BATCH_SIZE: least}, {}))
    if not written and batched - now:
        return {"batching": "`servable check` refuses it for this model; its error says why"}
    sizes = (least, 4 * least) if written else (None, least, 4 * least)
    return {BATCH_SIZE: sizes, "batching.timeout_micros": (0, 1000, 5000)}


def _requests_at_once(loaded: ValidFile, placement: Placement) -> float:
    """Return the most requests at one instance: by Little's law none stays longer than the alarm says."""
    environment, variant = loaded.environment, placement.variant
    peak_rps, most_ms = environment.traffic.peak_rps, environment.alarms.p99_latency_ms
    if peak_rps is None or most_ms is None:
        return math.inf
    weights = sum(other.weight for other in environment.variants.values()) or 1.0
    return peak_rps * variant.weight / weights * most_ms / 1000 / variant.most_instances


def _transport(
    loaded: ValidFile, placement: Placement, bodies: Sequence[Body]
) -> Mapping[str, tuple[Value, ...] | str]:
    """Return values of the handler's transport, or of its size limit; or reasons to try none."""
    model, written = placement.model, placement.variant.container
    if model.handler is None and not (model.code and wants_ours(model.code.path)):
        return {
            TRANSPORT: f'models.{placement.variant.model} has no handler = "servable" to read it'
        }
    if not bodies:
        return {TRANSPORT: "the content type of the requests is not known"}
    text = {one.content_type.partition(";")[0].strip() in RELAYED for one in bodies}
    if len(text) > 1:
        return {
            TRANSPORT: "some requests are JSON or CSV and some are tensors, and auto serves both"
        }
    ways = dict.fromkeys(
        ["auto", "grpc" if text == {True} else "rest", written.transport or "auto"]
    )
    sizes = sorted(len(one.content) for one in bodies)
    if text == {False}:
        why = "it concerns JSON and CSV, and the requests are tensors"
    elif sizes[-1] < SIZES_APART * sizes[0]:
        why = "all requests are about as large, so transport decides for all of them"
    elif written.transport not in (None, "auto"):
        why = f"with transport {written.transport} everything goes one way"
    else:
        middle = round(math.sqrt(sizes[0] * sizes[-1]))
        # An inherited number cannot be taken back by a file either.
        never = None if written.grpc_from_bytes is None else written.grpc_from_bytes
        why = "grpc_from_bytes says the same, and more, of requests of different sizes"
        return {FROM_BYTES: tuple(dict.fromkeys((never, middle, 0))), TRANSPORT: why}
    return {TRANSPORT: tuple(ways), FROM_BYTES: why}


def space(
    loaded: ValidFile, placement: Placement, only: tuple[str, ...] = (), bodies: Sequence[Body] = ()
) -> Space:
    """Return the search space. `only`: settings that may change; none named, all.

    Left out is what does not fit into memory, and what preflight refuses. Raises ValueError.
    """
    known = grid(loaded, placement, bodies)
    whole = known.values
    for name in only:
        if name not in whole:
            why = known.left_out.get(name) or known.left_out.get(
                name.partition(".")[0], "no setting to try"
            )
            raise ValueError(f"{name}: {why}; allowed: {', '.join(whole)}")
    chosen = {name: values for name, values in whole.items() if not only or name in only}
    everything = Space(chosen)
    points = [everything.point(number) for number in range(len(everything))]
    refused = _refused(loaded, placement)
    return Space(chosen, [one for one in points if _fits(one, placement) and not refused(one)])


def settings_at(point: Point, placement: Placement) -> ContainerSettings:
    """Return the container's settings with a point's instead of the variant's own, derived anew."""
    written = _with(placement.variant.container, point)
    return derive(
        written,
        instance=placement.instance,
        served=placement.served,
        tensorflow=placement.tensorflow,
    ).settings


def current(placement: Placement) -> Point:
    """Return today's deployment as a point: the file's settings, and derived ones for the rest."""
    settings = placement.settings
    point: dict[str, Value] = {
        "tfs_processes": settings.tfs_processes or 1,
        "gunicorn_workers": settings.gunicorn_workers or 1,
        "inter_op_threads": settings.inter_op_threads or placement.instance.vcpus,
        "intra_op_threads": settings.intra_op_threads or placement.instance.vcpus,
        "onednn": settings.onednn is not False,
        "omp_threads": settings.omp_threads or 1,
        BATCH_SIZE: settings.batching.max_batch_size if settings.batching else None,
        TRANSPORT: settings.transport or "auto",
        FROM_BYTES: settings.grpc_from_bytes,
    }
    if settings.batching:
        point["batching.timeout_micros"] = settings.batching.timeout_micros
    return point


def _with(settings: ContainerSettings, point: Point) -> ContainerSettings:
    values: dict[str, Any] = settings.model_dump(exclude_none=True)
    batching = dict(values.pop("batching", {}))
    for name, value in point.items():
        if name.startswith("batching."):
            batching[name.removeprefix("batching.")] = value
        elif name in ContainerSettings.model_fields:
            values[name] = value
    if BATCH_SIZE in point and point[BATCH_SIZE] is None:
        batching = {}
    if batching.get("max_batch_size") is not None:
        values["batching"] = Batching.model_validate(batching)
    return ContainerSettings.model_validate(values)


def _counts(*wanted: int) -> tuple[Value, ...]:
    return tuple(sorted({max(1, one) for one in wanted}))


def _fits(point: Point, placement: Placement) -> bool:
    settings = settings_at(point, placement)
    workers = 0 if placement.served.has_code is False else settings.gunicorn_workers or 1
    needed = memory(
        placement.instance, placement.served, processes=settings.tfs_processes or 1, workers=workers
    )
    return needed is None or needed.needed_gib <= placement.instance.memory_gib


def _refused(loaded: ValidFile, placement: Placement) -> Callable[[Point], bool]:
    """Whether preflight refuses a point for one of its parts; each part is looked at once."""

    @functools.cache
    def refused(part: tuple[tuple[str, Value], ...]) -> bool:
        return bool(part) and bool(_refused_for(loaded, placement, dict(part)) - now)

    now = _refused_for(loaded, placement, {})
    return lambda point: any(
        refused(tuple((name, point[name]) for name in names if name in point)) for names in TOGETHER
    )


def _refused_for(loaded: ValidFile, placement: Placement, point: Point) -> set[str]:
    """Return the rules that refuse the variant with these settings."""
    environment, name = loaded.environment, placement.name
    container = _with(placement.variant.container, point)
    changed = environment.variants[name].model_copy(update={"container": container})
    other = environment.model_copy(update={"variants": {**environment.variants, name: changed}})
    found = check_all(dataclasses.replace(loaded, draft=other))
    return {
        one.rule for one in found if one.severity is Severity.ERROR or one.rule in NEVER_PROPOSED
    }


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The environment with its variant on one instance type."""

    loaded: ValidFile
    placement: Placement

    def at(self, point: Point) -> ValidFile:
        """Return the environment with a point's settings in the place of the variant's own."""
        return _changed(
            self.loaded, self.placement.name, container=settings_at(point, self.placement)
        )


@dataclass(frozen=True, kw_only=True)
class Machines:
    """`kinds`: instance type -> its vCPUs and memory, today's first."""

    today: str
    kinds: Mapping[str, Machine]
    space: Space
    left_out: Mapping[str, str] = field(default_factory=dict)
    """setting -> why it is not tried on today's."""

    def of(self, point: Point) -> Machine:
        return self.kinds[self.kind_of(point)]

    def kind_of(self, point: Point) -> str:
        return str(point.get(INSTANCE_TYPE, self.today))

    def larger(self, point: Point) -> float:
        """Return the point's vCPUs as a multiple of today's."""
        today = self.kinds[self.today].placement.instance.vcpus
        return self.of(point).placement.instance.vcpus / today

    @property
    def wanted(self) -> list[Point]:
        """Points to try first: today's settings, then rules of thumb, each for every type in turn."""
        by_kind = [
            [
                {**point, INSTANCE_TYPE: kind}
                for point in rules_of_thumb(self.space, vcpus=machine.placement.instance.vcpus)
            ]
            for kind, machine in self.kinds.items()
        ]
        inherited = {**current(self.kinds[self.today].placement), INSTANCE_TYPE: self.today}
        return [inherited, *(point for several in zip(*by_kind, strict=True) for point in several)]


def machines(
    loaded: ValidFile,
    placement: Placement,
    *,
    only: tuple[str, ...] = (),
    instance_types: Sequence[str] = (),
    bodies: Sequence[Body] = (),
) -> Machines:
    """Return the machines. Raises ValueError for an unknown type, or one that `servable check` rejects."""
    today = str(placement.variant.instance_type)
    kinds = {today: Machine(loaded=loaded, placement=placement)}
    allowed = {finding.rule for finding in errors(check(loaded))}
    for kind in instance_types:
        if kind not in kinds:
            kinds[kind] = _on(loaded, placement, kind, allowed)
    spaces = {kind: space(one.loaded, one.placement, only, bodies) for kind, one in kinds.items()}
    left_out = grid(loaded, placement, bodies).left_out
    together = _together(spaces, kinds) if instance_types else spaces[today]
    return Machines(today=today, kinds=kinds, space=together, left_out=left_out)


def _on(loaded: ValidFile, placement: Placement, kind: str, allowed: set[str]) -> Machine:
    name, today = placement.name, placement.instance
    other = _changed(loaded, name, instance_type=kind)
    wrong = [finding for finding in errors(check(other)) if finding.rule not in allowed]
    placed = [place for place in placements(other.environment) if place.name == name]
    if wrong or not placed:
        why = "; ".join(map(str, wrong)) or "no instance type of SageMaker's that is known"
        raise ValueError(f"{kind}: {why}")
    if placed[0].instance.device != today.device:
        raise ValueError(
            f"{kind}: is of another kind ({placed[0].instance.device}) than {today.name} "
            f"({today.device}), whose image is copied; deploy it on {kind} first, then tune that"
        )
    return Machine(loaded=other, placement=placed[0])


def _together(spaces: Mapping[str, Space], kinds: Mapping[str, Machine]) -> Space:
    """Join every type's own points; a value that only another type has is no choice on this one."""
    names = {part.names for part in spaces.values()}
    if len(names) > 1:
        raise ValueError(f"{', '.join(spaces)}: their containers have different settings")
    by_size = sorted(kinds, key=lambda kind: kinds[kind].placement.instance.vcpus)
    grid: dict[str, tuple[Value, ...]] = {INSTANCE_TYPE: tuple(by_size)}
    for name in names.pop():
        values = {
            (type(value).__name__, value): value
            for part in spaces.values()
            for value in part.grid[name]
        }
        # None is off, and comes first.
        grid[name] = tuple(sorted(values.values(), key=lambda v: (v is not None, v or 0)))
    points: list[Point] = [
        {INSTANCE_TYPE: kind, **part.point(number)}
        for kind, part in spaces.items()
        for number in range(len(part))
    ]
    return Space(grid, points)


def _changed(loaded: ValidFile, name: str, **what: object) -> ValidFile:
    environment = loaded.environment
    variants = {**environment.variants, name: environment.variants[name].model_copy(update=what)}
    changed = environment.model_copy(update={"variants": variants})
    return dataclasses.replace(loaded, draft=changed)
