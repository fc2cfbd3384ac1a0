"""The search space of a variant: the settings that can run on each instance type."""

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, list_placements
from infra.policy.container import ContainerSettings, find_worker_class, has_upstream_tensorflow
from infra.preflight.check import check, check_all, select_errors
from model_packaging.inputs import needs_our_handler
from servable.measured.measurement import Body
from servable.tune.search.search import list_rules_of_thumb
from servable.tune.search.space import (
    BATCH_SIZE,
    INSTANCE_TYPE,
    OF_BATCHING,
    QUEUE,
    WORKER_CLASS,
    WORKER_THREADS,
    Point,
    Space,
    Value,
    generate_points,
    is_distinct,
    join_spaces,
    sort_values,
)
from servable_tensors.codecs import CODECS

TRANSPORT, FROM_BYTES = "transport", "grpc_from_bytes"
BATCH_THREADS = "batching.batch_threads"
# The handler can relay these to the model server's REST port unchanged.
RELAYED = tuple(name for name, codec in CODECS.items() if codec.is_text)
# If the largest request is so many times the smallest, two transports may be better than one.
SIZES_APART = 2.0
# Fewer requests at once don't fill a batch.
ENOUGH_AT_ONCE = 2.0
# Besides errors, no search proposes what these warnings report: it fails for some callers, or has no effect.
NEVER_PROPOSED = frozenset({"batch-fixed-shape", "batch-queue-short", "threads-with-gevent"})

# Settings that a rule combines are checked together, with today's values of the others.
TOGETHER = (
    ("tfs_processes", "gunicorn_workers", BATCH_SIZE, QUEUE),
    (WORKER_CLASS, WORKER_THREADS),
    (BATCH_SIZE, "batching.timeout_micros"),
    ("inter_op_threads", "tfs_processes"),
    ("intra_op_threads", "tfs_processes"),
    *(("onednn",), ("omp_threads",), (TRANSPORT,), (FROM_BYTES,)),
)


Grid = Mapping[str, tuple[Value, ...] | str]
"""setting -> its values, today's among them, smallest first; or why it isn't tried."""


def build_grid(loaded: ValidFile, placement: Placement, bodies: Sequence[Body] = ()) -> Grid:
    """Return the values to try, for each setting that can matter, with its rule next to it.

    `bodies`: the requests to send; without them, no transport is tried.
    """
    vcpus, today = placement.instance.vcpus, build_current_point(placement)
    half, quarter = max(1, vcpus // 2), max(1, vcpus // 4)
    found: dict[str, tuple[Value, ...] | str] = {
        "tfs_processes": (1, 2, quarter, half, vcpus),
        "gunicorn_workers": (1, half, vcpus, 2 * vcpus),
        # Where Gunicorn runs: the class decides how many requests one worker takes at once.
        WORKER_CLASS: ("sync", "gthread", "gevent"),
        # Only with gthread, the class that starts threads: see `is_distinct`.
        WORKER_THREADS: (1, 2, 8),
        "inter_op_threads": (1, 2, half, vcpus),
        "intra_op_threads": (1, 2, vcpus),
        "onednn": (False, True),
        "omp_threads": (1, vcpus),
    }
    if placement.served.has_code is False:
        why = "the model has no code, so no Gunicorn runs"
        found |= dict.fromkeys(("gunicorn_workers", WORKER_CLASS, WORKER_THREADS), why)
    if has_upstream_tensorflow(placement.tensorflow):
        found["omp_threads"] = f"TensorFlow {placement.tensorflow} has no OpenMP"
    found |= _list_batching_values(loaded, placement)
    for name, values in found.items():
        if not isinstance(values, str):
            # Today's value is always among them.
            found[name] = sort_values(*values, today.get(name, values[0]))
    found |= _list_transport_values(placement, bodies)
    others = (name for name in ContainerSettings.model_fields if name not in (*found, "batching"))
    return found | dict.fromkeys(
        others, "it affects a time limit, a log, or memory, but not throughput"
    )


def select_values(grid: Grid) -> dict[str, tuple[Value, ...]]:
    """Return the settings that are tried."""
    return {name: values for name, values in grid.items() if not isinstance(values, str)}


def _list_batching_values(loaded: ValidFile, placement: Placement) -> Grid:
    """Return values of batching, or the reasons to try none.

    A batch has at least the largest request's rows: a request with more gets status 400. A file
    that enables batching keeps it, because a file can't remove a table that it inherits.
    """
    written, vcpus = placement.variant.container.batching, placement.instance.vcpus
    rows = loaded.environment.traffic.rows_per_request or 0
    least = max(rows, written.max_batch_size if written else 0)
    at_once = _estimate_concurrency(loaded, placement)
    few = f"at most {at_once:.2g} requests are at one instance at once, given traffic.peak_rps and the alarm"
    why = None
    if not least:
        why = "traffic.rows_per_request isn't stated, and a request larger than a batch fails"
    elif not written and at_once < ENOUGH_AT_ONCE:
        why = few
    elif not written and _find_rejecting_rules(
        loaded, placement, {BATCH_SIZE: least}
    ) - _find_rejecting_rules(loaded, placement, {}):
        why = "`servable check` rejects it for this model; its error says why"
    if why:
        return dict.fromkeys((BATCH_SIZE, *OF_BATCHING), why)
    queue = int(build_current_point(placement)[QUEUE] or vcpus)
    return {
        BATCH_SIZE: (least, 4 * least) if written else (None, least, 4 * least),
        "batching.timeout_micros": (0, 1000, 5000),
        # With batching: so many batches compute at once.
        BATCH_THREADS: (1, max(1, vcpus // 4), vcpus),
        # Where more requests may be at one instance than its queue holds: the next one is an error.
        QUEUE: f"{few}, and its queue holds {queue}" if at_once <= queue else (16 * vcpus,),
    }


def _estimate_concurrency(loaded: ValidFile, placement: Placement) -> float:
    """Return the maximum number of simultaneous requests at one instance; infinity if unknown.

    This is Little's law, if no request takes longer than the p99 alarm's limit.
    """
    environment, variant = loaded.environment, placement.variant
    peak_rps, most_ms = environment.traffic.peak_rps, environment.alarms.p99_latency_ms
    if peak_rps is None or most_ms is None:
        return math.inf
    weights = sum(other.weight for other in environment.variants.values()) or 1.0
    return peak_rps * variant.weight / weights * most_ms / 1000 / variant.instance_limit


def _list_transport_values(placement: Placement, bodies: Sequence[Body]) -> Grid:
    """Return values of the handler's transport or of its size limit, or reasons to try none."""
    model, written = placement.model, placement.variant.container
    text = {one.content_type.partition(";")[0].strip() in RELAYED for one in bodies}
    why = None
    if model.handler is None and not (model.code and needs_our_handler(model.code.path)):
        why = f'models.{placement.variant.model} has no handler = "servable", which reads it'
    elif not bodies:
        why = "the content type of the requests is not known"
    elif len(text) > 1:
        why = "some requests are JSON or CSV and some are tensors, and only auto suits both"
    if why:
        return {TRANSPORT: why, FROM_BYTES: why}
    other = "grpc" if text == {True} else "rest"
    ways = tuple(dict.fromkeys(["auto", other, written.transport or "auto"]))
    sizes = sorted(len(one.content) for one in bodies)
    if text == {False}:
        why = "it applies only to JSON and CSV, and the requests are tensors"
    elif sizes[-1] < SIZES_APART * sizes[0]:
        why = "all requests have about the same size, so transport decides for all of them"
    elif written.transport not in (None, "auto"):
        why = f"transport {written.transport} applies to all requests"
    else:
        middle = round(math.sqrt(sizes[0] * sizes[-1]))
        why = "grpc_from_bytes includes its values, for requests of different sizes"
        return {
            FROM_BYTES: tuple(dict.fromkeys((written.grpc_from_bytes, middle, 0))),
            TRANSPORT: why,
        }
    return {TRANSPORT: ways, FROM_BYTES: why}


def build_space(
    loaded: ValidFile, placement: Placement, only: tuple[str, ...] = (), bodies: Sequence[Body] = ()
) -> Space:
    """Return the search space. Raises ValueError for a setting that can't be tried.

    `only`: settings that may change; if empty, all. Points that don't fit into memory or that
    `servable check` rejects are left out.
    """
    grid = build_grid(loaded, placement, bodies)
    known = select_values(grid)
    for name in only:
        if name not in known:
            why = grid.get(name, "no setting to try")
            raise ValueError(f"{name}: {why}; allowed: {', '.join(known)}")
    chosen = {name: values for name, values in known.items() if not only or name in only}
    today, allowed = build_current_point(placement), _build_filter(loaded, placement)
    points = (one for one in generate_points(chosen) if is_distinct(one, today) and allowed(one))
    return Space(chosen, points)


def build_current_point(placement: Placement) -> Point:
    """Return today's settings as a point: those in the file, and derived values for the rest."""
    settings = placement.settings
    threads = settings.gunicorn_threads or 1
    kind = find_worker_class(
        settings, placement.tensorflow, multi_model=placement.served.multi_model
    )
    # Gunicorn itself takes gthread for a sync worker with threads.
    kind = "gthread" if kind == "sync" and threads > 1 else kind
    point: dict[str, Value] = {
        "tfs_processes": settings.tfs_processes or 1,
        "gunicorn_workers": settings.gunicorn_workers or 1,
        "inter_op_threads": settings.inter_op_threads or placement.instance.vcpus,
        "intra_op_threads": settings.intra_op_threads or placement.instance.vcpus,
        "onednn": settings.onednn is not False,
        "omp_threads": settings.omp_threads or 1,
        WORKER_CLASS: kind,
        WORKER_THREADS: threads if kind == "gthread" else 1,
        QUEUE: max(placement.instance.vcpus, placement.workers),
        BATCH_SIZE: None,
        TRANSPORT: settings.transport or "auto",
        FROM_BYTES: settings.grpc_from_bytes,
    }
    written = settings.batching.model_dump(exclude_none=True) if settings.batching else {}
    return point | {f"batching.{name}": value for name, value in written.items()}


def _apply_point(settings: ContainerSettings, point: Point) -> ContainerSettings:
    values: dict[str, Any] = {"batching": {}, **settings.model_dump(exclude_none=True)}
    for name, value in point.items():
        if name.startswith("batching."):
            values["batching"][name.removeprefix("batching.")] = value
        elif name in ContainerSettings.model_fields:
            values[name] = value
    if values["batching"].get("max_batch_size") is None:
        del values["batching"]
    return ContainerSettings.model_validate(values)


def _build_filter(loaded: ValidFile, placement: Placement) -> Callable[[Point], bool]:
    """Return a predicate: whether `check` accepts all parts of a point, or already rejects today's."""
    now = _find_rejecting_rules(loaded, placement, {})

    @functools.cache
    def is_part_allowed(part: tuple[tuple[str, Value], ...]) -> bool:
        return not part or not _find_rejecting_rules(loaded, placement, dict(part)) - now

    return lambda point: all(
        is_part_allowed(tuple((name, point[name]) for name in names if name in point))
        for names in TOGETHER
    )


def _find_rejecting_rules(loaded: ValidFile, placement: Placement, point: Point) -> set[str]:
    """Return the rules that reject the variant with these settings."""
    found = check_all(Machine(loaded=loaded, placement=placement).apply_point(point))
    return {
        one.rule for one in found if one.severity is Severity.ERROR or one.rule in NEVER_PROPOSED
    }


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The environment with its variant on one instance type."""

    loaded: ValidFile
    placement: Placement

    def apply_point(self, point: Point) -> ValidFile:
        """Return the environment with a point's settings instead of the variant's own."""
        container = _apply_point(self.placement.variant.container, point)
        return _change_variant(self.loaded, self.placement.name, container=container)


@dataclass(frozen=True, kw_only=True)
class Machines:
    """The variant on each instance type.

    `kinds`: instance type -> the environment on it, today's type first.
    """

    today: str
    kinds: Mapping[str, Machine]
    space: Space
    left_out: Mapping[str, str] = field(default_factory=dict)
    """setting -> why it isn't tried on today's type."""

    def find_machine(self, point: Point) -> Machine:
        return self.kinds[self.find_instance_type(point)]

    def find_instance_type(self, point: Point) -> str:
        return str(point.get(INSTANCE_TYPE, self.today))

    def compute_vcpu_ratio(self, point: Point) -> float:
        """Return the point's vCPUs as a multiple of today's."""
        today = self.kinds[self.today].placement.instance.vcpus
        return self.find_machine(point).placement.instance.vcpus / today

    @property
    def initial_points(self) -> list[Point]:
        """Return the points to try first: today's settings, then each rule of thumb on all types."""
        by_kind = []
        for kind, machine in self.kinds.items():
            inherited = {**build_current_point(machine.placement), INSTANCE_TYPE: kind}
            rules = list_rules_of_thumb(self.space, vcpus=machine.placement.instance.vcpus)
            by_kind.append([{**inherited, **rule} for rule in ({}, *rules)])
        today, *others = [list(points) for points in zip(*by_kind, strict=True)]
        return [today[0], *itertools.chain.from_iterable(others)]


def build_machines(
    loaded: ValidFile,
    placement: Placement,
    only: tuple[str, ...] = (),
    instance_types: Sequence[str] = (),
    bodies: Sequence[Body] = (),
) -> Machines:
    """Return the variant on each instance type. Raises ValueError for a type that can't be tried."""
    today = str(placement.variant.instance_type)
    kinds = {today: Machine(loaded=loaded, placement=placement)}
    allowed = {finding.rule for finding in select_errors(check(loaded))}
    for kind in instance_types:
        if kind not in kinds:
            kinds[kind] = _build_machine(loaded, placement, kind, allowed)
    spaces = {
        kind: build_space(one.loaded, one.placement, only, bodies) for kind, one in kinds.items()
    }
    left_out = {}
    for name, values in build_grid(loaded, placement, bodies).items():
        if isinstance(values, str):
            left_out[name] = values
        elif name not in spaces[today].names:
            left_out[name] = "--setting excludes it"
        elif len({key[spaces[today].names.index(name)] for key in spaces[today].keys}) < 2:
            left_out[name] = "no other value fits into memory, has an effect, and passes `check`"
    by_size = sorted(kinds, key=lambda kind: kinds[kind].placement.instance.vcpus)
    together = join_spaces(spaces, by_size) if instance_types else spaces[today]
    return Machines(today=today, kinds=kinds, space=together, left_out=left_out)


def _build_machine(
    loaded: ValidFile, placement: Placement, kind: str, allowed: set[str]
) -> Machine:
    name, today = placement.name, placement.instance
    other = _change_variant(loaded, name, instance_type=kind)
    wrong = [finding for finding in select_errors(check(other)) if finding.rule not in allowed]
    placed = [place for place in list_placements(other.environment) if place.name == name]
    if wrong or not placed:
        why = "; ".join(map(str, wrong)) or "isn't a known SageMaker instance type"
        raise ValueError(f"{kind}: {why}")
    if placed[0].instance.device != today.device:
        raise ValueError(
            f"{kind}: has a different kind of device ({placed[0].instance.device}) than {today.name} "
            f"({today.device}), whose image is copied; deploy the model on {kind} first, then tune it there"
        )
    return Machine(loaded=other, placement=placed[0])


def _change_variant(loaded: ValidFile, name: str, **what: object) -> ValidFile:
    environment = loaded.environment
    variants = {**environment.variants, name: environment.variants[name].model_copy(update=what)}
    changed = environment.model_copy(update={"variants": variants})
    return dataclasses.replace(loaded, draft=changed)
