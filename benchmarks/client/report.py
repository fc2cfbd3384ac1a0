"""The client's part of docs/performance.md, from what `make bench-client` measured last."""

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import at_most, ran_on, read, row, target
from benchmarks.report import section as page_section

RESULT = Path(__file__).parent / "result.json"
# What is compared with what, and the most it may be. Source: the requirements of this project.
BOUNDS = [
    ("one row, the form chosen by the client", "client, small", "boto3, JSON, small", 1.15),
    ("one row, JSON", "client, JSON, small", "boto3, JSON, small", 1.15),
    ("2,230 rows, the form chosen by the client", "client, large", "boto3, JSON, large", 0.2),
    ("2,230 rows, npy", "client, npy, large", "boto3, npy ready, large", 1.3),
    ("2,230 rows, protobuf", "client, protobuf, large", "boto3, protobuf ready, large", 1.8),
]
WANTED_IMPORT_SECONDS = 0.4


def section() -> str:
    result = read(RESULT)
    parts = (_how(result), _ways(result["cpu_ms_per_call"]), _targets(result))
    return page_section("The client", "client", *parts)


def _how(result: dict[str, Any]) -> list[str]:
    blocks = len(next(iter(result["cpu_ms_per_call"].values())))
    shorter = ", ".join(f"{calls} calls for {name}" for name, calls in result["shorter"].items())
    return [
        "Rows of 256 float32 to the endpoint on this computer, whose handler answers with one float32",
        "a row and does nothing else. CPU time of the calling process, from the array that is sent to",
        f"the array that comes back; {blocks} blocks of {result['calls']} calls of each way, in turn",
        f"({shorter}).",
        "plain boto3 has its own settings; `ready` means that it is given the bytes of that form, and",
        "only sends them. A ratio is of blocks of the same round; its interval is that of the median,",
        "from the 6th to the 15th of 20 (96 %).",
        "",
        ran_on(result["machine"]),
    ]


def _ways(found: dict[str, list[float]]) -> list[str]:
    lines = ["| | CPU-ms per call | lowest to highest |", "|---|---:|---:|"]
    for name, of in found.items():
        lines.append(row(name, f"{median(of):.2f}", f"{min(of):.2f} to {max(of):.2f}"))
    return lines


def _targets(result: dict[str, Any]) -> list[str]:
    found = result["cpu_ms_per_call"]
    lines = ["| client / boto3 | median | interval | wanted | |", "|---|---:|---:|---:|---|"]
    for label, ours, theirs, most in BOUNDS:
        ratios = sorted(a / b for a, b in zip(found[ours], found[theirs], strict=True))
        middle, (low, high) = median(ratios), interval(ratios)
        spread, wanted = f"{low:.3f}x to {high:.3f}x", f"at most {most:g}x"
        lines.append(target(label, f"{middle:.3f}x", spread, wanted, middle <= most))
    seconds = result["import_seconds"]
    imported = at_most("`import servable_client`", seconds, WANTED_IMPORT_SECONDS, unit=" s")
    return [*lines, imported]


def interval(ordered: list[float]) -> tuple[float, float]:
    """Confidence interval of the median, about 95 %, by order statistics, without a distribution."""
    # Half of the values, less about two deviations of a binomial: 6th and 15th of 20.
    low = max(0, round(len(ordered) / 2 - len(ordered) ** 0.5 + 0.4) - 1)
    return ordered[low], ordered[len(ordered) - 1 - low]
