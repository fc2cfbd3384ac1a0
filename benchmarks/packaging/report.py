"""Packing's part of docs/performance.md."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.frame import Result
from benchmarks.tables import Bound, bounds_table, quotients, table

LABELS = {
    "servable": "servable",
    "tar_gzip": "`tar czf`",
    "python_tarfile": 'Python\'s `tarfile.open("w:gz")`',
    "tar": "`tar cf`, no compression",
}


def fields(result: Result) -> dict[str, Any]:
    return {
        "megabytes": result["input_bytes"] / 1e6,
        "rounds": len(result["runs"]["servable"]),
        "times": _times(result["runs"]),
        "bounds": bounds_table(_bounds(result)),
        "unchanged_gb": result["unchanged"]["input_bytes"] / 1e9,
        "large_gb": result["large"]["input_bytes"] / 1e9,
    }


def _times(runs: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = []
    for way, of_way in runs.items():
        seconds = [run["seconds"] for run in of_way]
        size = f"{of_way[0]['archive_bytes'] / 1e6:.1f}"
        span = f"{min(seconds):.2f} to {max(seconds):.2f}"
        rows.append((LABELS[way], f"{median(seconds):.2f}", span, size))
    return table(("", "seconds", "lowest to highest", "archive, MB"), rows)


def _bounds(result: Result) -> Iterator[Bound]:
    """Yield what is wanted. Source: the requirements of this project."""
    runs, large, unchanged = result["runs"], result["large"], result["unchanged"]
    seconds = {way: [run["seconds"] for run in of_way] for way, of_way in runs.items()}

    def times(label: str, above: str, below: str, **limit: float) -> Bound:
        ratios = quotients(seconds[above], seconds[below])
        return Bound(label=label, values=ratios, form=".1f", unit="x", **limit)

    def memory(label: str, most_bytes: int) -> Bound:
        return Bound(label=label, values=[most_bytes / 1e6], most=200, form=".0f", unit=" MB")

    yield times("faster than `tar czf`", "tar_gzip", "servable", least=20)
    yield times("faster than Python's tarfile", "python_tarfile", "servable", least=12)
    yield times("time of plain `tar cf`", "servable", "tar", most=2.5)
    size = runs["servable"][0]["archive_bytes"] / runs["tar_gzip"][0]["archive_bytes"]
    label = "size of `tar czf`'s archive"
    yield Bound(label=label, values=[size], most=1.01, form=".4f", unit="x")
    yield memory("peak memory", max(run["peak_memory_bytes"] for run in runs["servable"]))
    gigabytes = f"{large['input_bytes'] / 1e9:.0f} GB"
    yield memory(f"peak memory, {gigabytes}", large["peak_memory_bytes"])
    files, size = f"{unchanged['files']:,}", unchanged["input_bytes"] / 1e9
    label = (
        f"{files} unchanged files, {size:.0f} GB, the slowest of {len(unchanged['again_seconds'])}"
    )
    yield Bound(label=label, values=[max(unchanged["again_seconds"])], most=0.5, unit=" s")
