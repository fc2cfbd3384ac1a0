"""What may be tried on an instance type."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded, ValidFile
from infra.parameters.placement import Placement, list_placements
from infra.policy.container import ContainerSettings
from infra.preflight.check import check, check_all, select_errors
from servable.measured.measurement import Body
from servable.tune.container_space import (
    NEVER_PROPOSED,
    Grid,
    Machine,
    build_current_point,
    build_grid,
    build_machines,
    build_space,
    select_values,
)
from servable.tune.search.space import (
    BATCH_SIZE,
    QUEUE,
    WORKER_CLASS,
    WORKER_THREADS,
    Point,
    Space,
    is_distinct,
    join_spaces,
)
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.preflight.overlay import overlaid
from tests.servable.tune.surfaces import FAMILIES, load_placed, prod_machines


@pytest.mark.long
def test_every_point_of_prod_can_run_and_has_settings_with_an_effect_that_check_accepts() -> None:
    loaded, placement = load_placed("prod")
    tried, machine = prod_machines().space, Machine(loaded=loaded, placement=placement)
    assert tried.find_number(build_current_point(placement)) is not None
    assert len(tried) >= 500

    points = [tried.build_point(number) for number in range(len(tried))]
    for point in points[::37]:
        needed = list_placements(machine.apply_point(point).environment)[0].memory_need
        assert needed is None or needed.total_gib <= placement.instance.memory_gib
    sizes = tried.grid["batching.max_batch_size"]
    assert min(int(size) for size in sizes if size is not None) >= 500

    pairs = {(point[WORKER_CLASS], point[WORKER_THREADS]) for point in points}
    assert pairs == {("sync", 1), ("gevent", 1), ("gthread", 2), ("gthread", 8)}
    for point in [*points[:: len(points) // 6], points[-1]]:
        applied = machine.apply_point(point)
        assert not {one.rule for one in check_all(applied)} & NEVER_PROPOSED
        assert not select_errors(check(applied))


def changed(name: str, **container: object) -> tuple[ValidFile, Placement]:
    """An environment, and its placement with these settings of its container."""
    loaded, placement = load_placed(name)
    written = placement.variant.container.model_copy(update=container)
    variants = {placement.name: placement.variant.model_copy(update={"container": written})}
    return loaded, list_placements(loaded.environment.model_copy(update={"variants": variants}))[0]


def test_todays_values_are_among_those_tried_with_the_worker_class_that_runs() -> None:
    cases: list[tuple[dict[str, object], str, int]] = [
        ({"gunicorn_worker_class": "sync", "gunicorn_threads": 4}, "gthread", 4),
        ({"gunicorn_worker_class": "gevent", "gunicorn_threads": 4}, "gevent", 1),
        ({}, "gevent", 1),
    ]
    for settings, kind, threads in cases:
        today = build_current_point(changed("prod", **settings)[1])
        assert (today[WORKER_CLASS], today[WORKER_THREADS]) == (kind, threads)

    values = select_values(build_grid(*changed("prod", gunicorn_workers=3, inter_op_threads=5)))
    assert (3 in values["gunicorn_workers"], 5 in values["inter_op_threads"]) == (True, True)


TODAY: Point = {
    "tfs_processes": 1,
    "gunicorn_workers": 16,
    WORKER_CLASS: "sync",
    WORKER_THREADS: 1,
    QUEUE: 16,
}


def test_a_queue_is_tried_where_it_can_fill_and_threads_with_gthread() -> None:
    cases: list[tuple[Point, bool]] = [
        ({QUEUE: 256}, False),
        ({QUEUE: 256, "gunicorn_workers": 32}, True),
        ({QUEUE: 256, "gunicorn_workers": 32, "tfs_processes": 2}, False),
        ({QUEUE: 256, WORKER_CLASS: "gevent"}, True),
        ({WORKER_THREADS: 8}, False),
        ({WORKER_CLASS: "gthread"}, False),
        ({WORKER_CLASS: "gthread", WORKER_THREADS: 8}, True),
    ]
    for point, distinct in cases:
        assert is_distinct(point, TODAY) == distinct


def test_what_is_not_tried_has_a_reason() -> None:
    loaded, placement = load_placed("prod")
    left_out = build_grid(loaded, placement)
    assert str(left_out[QUEUE]).startswith("at most 8.3 requests are at one instance at once")
    assert "not throughput" in left_out["nginx_read_timeout_seconds"]
    alone = dataclasses.replace(placement.served, has_code=False)
    left_out = build_grid(loaded, dataclasses.replace(placement, served=alone))
    assert "no Gunicorn runs" in left_out[WORKER_CLASS]
    known = build_machines(loaded, placement, only=(WORKER_THREADS, "onednn"))
    assert known.left_out["tfs_processes"] == "--setting excludes it"
    # Today's class is gevent, which has no threads.
    assert known.left_out[WORKER_THREADS].startswith("no other value")
    named = {*build_grid(loaded, placement), "batching"}
    assert named >= ContainerSettings.model_fields.keys()
    loaded, placement = load_placed("local")
    assert "no handler" in build_grid(loaded, placement, [SMALL])["transport"]
    assert build_space(loaded, placement, ("onednn",)).names == ("onednn",)
    with pytest.raises(ValueError, match="workers: no setting to try; allowed: tfs_processes"):
        build_space(loaded, placement, ("workers",))
    with pytest.raises(ValueError, match=r"ml\.c5\.huge"):
        build_machines(loaded, placement, instance_types=("ml.c5.huge",))


def test_a_rule_that_refuses_a_value_takes_its_points_out_and_batches_are_tried_where_requests_meet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def one_refused(loaded: Loaded) -> list[SimpleNamespace]:
        assert isinstance(loaded, ValidFile)
        container = loaded.environment.variants["primary"].container
        errors = [SimpleNamespace(rule="no-onednn", severity=Severity.ERROR)]
        return errors if container.onednn is False else []

    monkeypatch.setattr("servable.tune.container_space.check_all", one_refused)
    tried = build_space(*load_placed("local"), ("onednn", "intra_op_threads"))
    assert {tried.build_point(number)["onednn"] for number in range(len(tried))} == {True}
    monkeypatch.undo()

    for peak_rps, tried in [(19.0, False), (20.0, True), (None, True)]:
        assert (BATCH_SIZE in select_values(batched(peak_rps))) == tried

    def refused(loaded: Loaded, placement: Placement, point: Point) -> set[str]:
        return {"batch-fixed-shape"} if point.get(BATCH_SIZE) else set()

    monkeypatch.setattr("servable.tune.container_space._find_rejecting_rules", refused)
    assert "`servable check` rejects it" in batched(None)[BATCH_SIZE]
    monkeypatch.undo()

    loaded, placement = load_placed("dev")
    for kind in ["ml.m5.large", "ml.c5.large"]:
        instance = dataclasses.replace(placement.instance, name=kind, vcpus=2)
        grid = build_grid(loaded, dataclasses.replace(placement, instance=instance))
        values = select_values(grid)
        counts = [one for each in values.values() for one in each if type(one) is int]
        assert values["tfs_processes"][0] == 1
        assert min(one for one in values["tfs_processes"] if one is not None) == 1
        assert all(one >= 0 for one in counts)


@pytest.mark.parametrize("name", ["jax-fixed", "keras-fixed", "module-scalar", "tf1-tags"])
def test_batching_is_not_tried_where_requests_cannot_be_merged(name: str, project: Path) -> None:
    exported = ROOT / "tests" / "exports" / "models" / name
    lines = f'models.ranker.saved_model = "{exported}"\ntraffic.rows_per_request = 1'
    loaded = valid(overlaid(project, lines))
    placement = list_placements(loaded.environment)[0]
    assert str(build_grid(loaded, placement)[BATCH_SIZE]).startswith("`servable check` rejects it")


def test_each_instance_type_has_its_own_values_and_several_those_that_all_try() -> None:
    loaded, placement = load_placed("local")
    both = build_machines(
        loaded, placement, only=("gunicorn_workers",), instance_types=("ml.c5.4xlarge",)
    )
    points = [both.space.build_point(number) for number in range(len(both.space))]
    found = {(point["instance_type"], point["gunicorn_workers"]) for point in points}
    counts = {"ml.c5.xlarge": (1, 2, 4, 8), "ml.c5.4xlarge": (1, 4, 8, 16, 32)}
    assert found == {(kind, workers) for kind, several in counts.items() for workers in several}
    assert both.compute_vcpu_ratio({"instance_type": "ml.c5.4xlarge", "gunicorn_workers": 8}) == 4.0
    first = both.space.build_point(both.space.find_nearest(both.initial_points[0]))
    assert first["instance_type"] == "ml.c5.xlarge"

    large = both.find_machine({"instance_type": "ml.c5.4xlarge"})
    (variant,) = large.apply_point({"gunicorn_workers": 32}).environment.variants.values()
    assert (variant.instance_type, variant.container.gunicorn_workers) == ("ml.c5.4xlarge", 32)

    # A queue of a small type may fill where that of a large one does not.
    fills = Space({"onednn": (False, True), QUEUE: (4, 64)})
    joined = join_spaces({"small": fills, "large": Space({"onednn": (True,)})}, ["small", "large"])
    assert joined.names == ("instance_type", "onednn")
    assert joined.keys == (("small", False), ("small", True), ("large", True))


def body(content_type: str, size: int) -> Body:
    return Body(content=bytes(size), content_type=content_type)


SMALL, LARGE, TENSOR = (
    body("application/json", 100),
    body("application/jsons", 10_000),
    body("application/x-npy", 100),
)
# The requests, and what the file says -> values, or the beginning of why there are none.
FROM_BYTES, KNOWN = "grpc_from_bytes", "grpc_from_bytes includes its values"
MIXED, NONE = "some requests are JSON or CSV", "the content type of the requests is not known"
TRANSPORTS: dict[str, tuple[list[Body], dict[str, object], object, object]] = {
    "JSON of one size": ([SMALL], {}, ("auto", "grpc"), "all requests have about the same size"),
    "tensors": ([TENSOR], {}, ("auto", "rest"), "it applies only to JSON and CSV"),
    "JSON of two sizes": ([SMALL, LARGE], {}, KNOWN, (None, 1000, 0)),
    "a number in the file": ([SMALL, LARGE], {FROM_BYTES: 500}, KNOWN, (500, 1000, 0)),
    "a transport in the file": (
        [SMALL, LARGE],
        {"transport": "rest"},
        ("auto", "grpc", "rest"),
        "transport rest applies",
    ),
    "both kinds": ([SMALL, TENSOR], {}, MIXED, MIXED),
    "no request": ([], {}, NONE, NONE),
}


@pytest.mark.parametrize("name", TRANSPORTS)
def test_transport_is_tried_where_the_requests_allow_it(name: str) -> None:
    bodies, written, transport, from_bytes = TRANSPORTS[name]
    loaded, placement = changed("local", **written)
    model = placement.model.model_copy(update={"handler": "servable"})
    every = build_grid(loaded, dataclasses.replace(placement, model=model), bodies)
    for setting, wanted in (("transport", transport), (FROM_BYTES, from_bytes)):
        found = every[setting]
        assert (found[: len(wanted)] if isinstance(wanted, str) else found) == wanted


def batched(peak_rps: float | None) -> Grid:
    """A model whose requests have 500 rows, with an alarm at 100 ms, on one instance."""
    loaded, placement = changed("local", batching=None)
    environment = loaded.environment
    traffic = environment.traffic.model_copy(update={"peak_rps": peak_rps, "rows_per_request": 500})
    alarms = environment.alarms.model_copy(update={"p99_latency_ms": 100.0})
    draft = environment.model_copy(update={"traffic": traffic, "alarms": alarms})
    variant = placement.variant.model_copy(update={"min_instances": 1, "max_instances": 1})
    placement = dataclasses.replace(placement, variant=variant)
    return build_grid(dataclasses.replace(loaded, draft=draft), placement)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_every_grid_has_500_points_and_a_seed_gives_the_same_surface_twice(family: str) -> None:
    surface, again = FAMILIES[family](7), FAMILIES[family](7)
    assert len(surface.space) >= 500
    assert surface.values.tolist() == again.values.tolist()
