"""Packing's part of docs/performance.md, from what `make bench-packaging` measured last."""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import WITH_SPREAD, ran_on, read, row, target
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"

LABELS = {
    "servable": "servable",
    "tar_gzip": "`tar czf`",
    "python_tarfile": 'Python\'s `tarfile.open("w:gz")`',
    "tar": "`tar cf`, no compression",
}
Runs = dict[str, list[dict[str, Any]]]


def section() -> str:
    result = read(RESULT)
    parts = (_compared(result), _times(result["runs"]), _targets(result))
    return page_section("Packing", "packaging", *parts)


def _compared(result: dict[str, Any]) -> list[str]:
    return [
        f"Input: {result['input_bytes'] / 1e6:,.0f} MB of normally distributed float32 in one",
        f"shard, made from a seed, in the page cache. Median of {len(result['runs']['servable'])} runs "
        "each, in turn, after a",
        "`sync`. Servable hashes the archive as it writes and waits until it is on the disk (fsync);",
        "the others do neither. Python's own start is not counted, tar's is. Ratios are of runs of",
        "the same round: median, and lowest to highest.",
        "",
        ran_on(result["machine"], f", isal {result['machine']['isal']}"),
    ]


def _times(runs: Runs) -> list[str]:
    lines = ["| | seconds | lowest to highest | archive, MB |", "|---|---:|---:|---:|"]
    for way, of in runs.items():
        seconds = [run["seconds"] for run in of]
        size = of[0]["archive_bytes"] / 1e6
        spread = f"{min(seconds):.2f} to {max(seconds):.2f}"
        lines.append(row(LABELS[way], f"{median(seconds):.2f}", spread, f"{size:.1f}"))
    return lines


def _targets(result: dict[str, Any]) -> list[str]:
    runs, large, unchanged = result["runs"], result["large"], result["unchanged"]
    peak = max(run["peak_memory_bytes"] for run in runs["servable"]) / 1e6
    size = runs["servable"][0]["archive_bytes"] / runs["tar_gzip"][0]["archive_bytes"]
    again = unchanged["again_seconds"]
    what = f"{unchanged['files']:,} unchanged files, {unchanged['input_bytes'] / 1e9:.0f} GB"
    large_peak = large["peak_memory_bytes"] / 1e6
    large_is = f"{large['input_bytes'] / 1e9:.0f} GB"
    read_again = f"{min(again):.2f} to {max(again):.2f}"
    return [
        *WITH_SPREAD,
        _ratio("faster than `tar czf`", runs, "tar_gzip", "servable", at_least=20),
        _ratio("faster than Python's tarfile", runs, "python_tarfile", "servable", at_least=12),
        _ratio("time of plain `tar cf`", runs, "servable", "tar", at_most=2.5),
        target("size of `tar czf`'s archive", f"{size:.4f}x", "", "at most 1.01x", size <= 1.01),
        target("peak memory", f"{peak:.0f} MB", "", "at most 200 MB", peak <= 200),
        target(f"peak memory, {large_is}", f"{large_peak:.0f} MB", "", "at most 200 MB", large_peak <= 200),
        target(what, f"{median(again):.2f} s", read_again, "at most 0.5 s", max(again) <= 0.5),
        "",
        f"The first reading of those {unchanged['input_bytes'] / 1e9:.0f} GB, to hash them: "
        f"{unchanged['first_seconds']:.1f} s. Packing {large_is}: {large['seconds']:.1f} s.",
    ]  # fmt: skip


def _ratio(
    label: str,
    runs: Runs,
    above: str,
    below: str,
    *,
    at_least: float = 0,
    at_most: float = float("inf"),
) -> str:
    pairs = zip(runs[above], runs[below], strict=True)
    ratios = [one["seconds"] / other["seconds"] for one, other in pairs]
    middle = median(ratios)
    wanted = f"at least {at_least:g}x" if at_least else f"at most {at_most:g}x"
    spread = f"{min(ratios):.1f}x to {max(ratios):.1f}x"
    return target(label, f"{middle:.1f}x", spread, wanted, at_least <= middle <= at_most)
