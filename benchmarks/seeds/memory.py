"""S1: memory as the model grows, and how many workers fit before the wall. Once: it does not scatter."""

from typing import Any

from benchmarks.seeds.bench import Bench
from benchmarks.seeds.flask_server import flask_server
from benchmarks.serving import workload
from benchmarks.serving.callers import asked
from infra.policy.container import ContainerSettings

FEW, SOME = 1, 4
# What the wall is, and the article's workers once the model is out of them.
WALL_MB, ARTICLE_WORKERS = 4_096, 12
WARM_CALLERS, WARM_SECONDS = 8, 0.5


def measured(bench: Bench) -> dict[str, Any]:
    """Proportional set sizes of all processes, after some requests."""
    growing: list[dict[str, Any]] = []
    wall: list[dict[str, Any]] = []
    largest = [*bench.models][-1]
    for name, made in bench.models.items():
        row = {"weights_mb": made.weights_mb}
        flask, beyond = _flask(bench, name, until_the_wall=name == largest)
        wall += beyond
        growing.append({"way": "Flask", **row, "memory_mb": flask})
        growing.append({"way": "ours", **row, "memory_mb": _ours(bench, name, (FEW, SOME))})
        bench.told(f"memory with {made.weights_mb:.0f} MB of weights")
    twelve = _ours(bench, largest, (ARTICLE_WORKERS,))
    return {
        "growing": growing,
        "wall_mb": WALL_MB,
        "flask_wall": wall,
        "ours_at_twelve": {
            "workers": ARTICLE_WORKERS,
            "memory_mb": twelve[str(ARTICLE_WORKERS)],
        },
    }


def _flask(
    bench: Bench, name: str, *, until_the_wall: bool
) -> tuple[dict[str, float], list[dict[str, Any]]]:
    model = bench.models[name].keras
    with flask_server(model, how="call", workers=FEW, folder=bench.folder) as flask:
        found, workers = {FEW: _warm(flask.url, flask.memory_mb)}, FEW
        while workers < SOME or (
            until_the_wall and found[workers] <= WALL_MB and workers < ARTICLE_WORKERS
        ):
            more = 1 if until_the_wall else SOME - FEW
            flask.add_workers(more)
            workers += more
            found[workers] = _warm(flask.url, flask.memory_mb)
            bench.told(f"{workers} Flask workers take {found[workers]:.0f} MB")
    wall = [{"workers": count, "memory_mb": memory} for count, memory in found.items()]
    return {str(count): found[count] for count in (FEW, SOME)}, wall if until_the_wall else []


def _ours(bench: Bench, name: str, counts: tuple[int, ...]) -> dict[str, float]:
    found = {}
    for workers in counts:
        with bench.serve(name, ContainerSettings(gunicorn_workers=workers)) as ours:
            found[str(workers)] = _warm(ours.url, ours.memory_mb)
    return found


def _warm(url: str, memory_mb: Any) -> float:
    body = workload.body(workload.JSON, 1)
    asked(url, body, callers=WARM_CALLERS, seconds=WARM_SECONDS, content_type=workload.JSON)
    return float(memory_mb())
