"""What may be tried on a variant's machine: typed settings, without what could not run there."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded
from infra.parameters.placement import Placement
from infra.policy.container import Batching, ContainerSettings, is_upstream
from infra.policy.derived_settings import derive
from infra.policy.sizing import memory
from infra.preflight.check import check_all
from servable.tune.search.space import BATCH_SIZE, Point, Space, Value

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
)


def grid(placement: Placement, *, rows_per_request: int | None) -> dict[str, tuple[Value, ...]]:
    """setting -> its values, smallest first. Halves and doubles of what the machine has."""
    vcpus, served = placement.instance.vcpus, placement.served
    found: dict[str, tuple[Value, ...]] = {}
    if not served.multi_model:
        found["tfs_processes"] = _counts(1, 2, vcpus // 4, vcpus // 2, vcpus)
    if served.has_code is not False:
        found["gunicorn_workers"] = _counts(1, vcpus // 2, vcpus, 2 * vcpus)
    found["inter_op_threads"] = _counts(1, 2, vcpus // 2, vcpus)
    found["intra_op_threads"] = _counts(1, 2, vcpus)
    found["onednn"] = (False, True)
    if not is_upstream(placement.tensorflow):
        found["omp_threads"] = _counts(1, vcpus)
    sizes = _batch_sizes(placement.variant.container.batching, rows_per_request)
    if sizes:
        found[BATCH_SIZE] = sizes
        found["batching.timeout_micros"] = (0, 1000, 5000)
    return found


def space(loaded: Loaded, placement: Placement, only: tuple[str, ...] = ()) -> Space:
    """`only`: settings that may change; none named, all. Others stay as they are.

    Left out is what does not fit into memory, and what preflight refuses. Raises ValueError.
    """
    environment = loaded.environment
    rows = environment.traffic.rows_per_request if environment else None
    whole = grid(placement, rows_per_request=rows)
    unknown = [name for name in only if name not in whole]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no setting to try; allowed: {', '.join(whole)}")
    chosen = {name: values for name, values in whole.items() if not only or name in only}
    everything = Space(chosen)
    points = [everything.point(number) for number in range(len(everything))]
    refused = _refused(loaded, placement)
    return Space(chosen, [one for one in points if _fits(one, placement) and not refused(one)])


def settings_at(point: Point, placement: Placement) -> ContainerSettings:
    """The container's settings with a point's in the place of the variant's own, derived anew."""
    written = _with(placement.variant.container, point)
    return derive(
        written,
        instance=placement.instance,
        served=placement.served,
        tensorflow=placement.tensorflow,
    ).settings


def current(placement: Placement) -> Point:
    """What is deployed today, as a point: the file's settings, and what is derived for the rest."""
    settings = placement.settings
    found: dict[str, Value] = {
        "tfs_processes": settings.tfs_processes or 1,
        "gunicorn_workers": settings.gunicorn_workers or 1,
        "inter_op_threads": settings.inter_op_threads or placement.instance.vcpus,
        "intra_op_threads": settings.intra_op_threads or placement.instance.vcpus,
        "onednn": settings.onednn is not False,
        "omp_threads": settings.omp_threads or 1,
        BATCH_SIZE: settings.batching.max_batch_size if settings.batching else None,
    }
    if settings.batching:
        found["batching.timeout_micros"] = settings.batching.timeout_micros
    return found


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


def _batch_sizes(written: Batching | None, rows: int | None) -> tuple[Value, ...]:
    """At least the largest request's rows: a larger request than a batch is answered 400.

    A file that batches keeps batching: a table that is inherited cannot be taken back by a file.
    """
    least = max(rows or 0, written.max_batch_size if written else 0)
    if not least:
        return ()
    return (least, 4 * least) if written else (None, least, 4 * least)


def _fits(point: Point, placement: Placement) -> bool:
    settings = settings_at(point, placement)
    workers = 0 if placement.served.has_code is False else settings.gunicorn_workers or 1
    needed = memory(
        placement.instance,
        placement.served,
        processes=settings.tfs_processes or 1,
        workers=workers,
    )
    return needed is None or needed.needed_gib <= placement.instance.memory_gib


def _refused(loaded: Loaded, placement: Placement) -> Callable[[Point], bool]:
    """Whether preflight refuses a point for one of its parts; each part is looked at once."""
    environment, name = loaded.environment, placement.name
    if environment is None:
        return lambda point: False

    @functools.cache
    def errors(part: tuple[tuple[str, Value], ...]) -> set[str]:
        container = _with(placement.variant.container, dict(part))
        changed = environment.variants[name].model_copy(update={"container": container})
        variants = {**environment.variants, name: changed}
        other = environment.model_copy(update={"variants": variants})
        found = check_all(dataclasses.replace(loaded, environment=other, draft=other))
        return {
            one.rule
            for one in found
            if one.severity is Severity.ERROR or one.rule in NEVER_PROPOSED
        }

    return lambda point: any(errors(part) - errors(()) for part in _parts(point))


def _parts(point: Point) -> Iterator[tuple[tuple[str, Value], ...]]:
    for names in TOGETHER:
        part = tuple((name, point[name]) for name in names if name in point)
        if part:
            yield part
