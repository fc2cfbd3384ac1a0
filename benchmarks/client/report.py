"""The client's part of docs/performance.md, from what `make bench-client` measured last."""

import json
from pathlib import Path
from statistics import median
from typing import Any

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
    head = ["## The client", ""]
    if not RESULT.exists():
        return "\n".join([*head, "Not measured yet: `make bench-client`.", ""])
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    return "\n".join([*head, *_how(result), "", *_ways(result), "", *_ratios(result), ""])


def _how(result: dict[str, Any]) -> list[str]:
    machine, found = result["machine"], result["cpu_ms_per_call"]
    blocks = len(next(iter(found.values())))
    shorter = ", ".join(f"{calls} calls for {name}" for name, calls in result["shorter"].items())
    return [
        "Generated from `benchmarks/client/result.json`; measured by `make bench-client`.",
        "",
        "Rows of 256 float32 to the endpoint on this machine, whose handler answers with one float32",
        "a row and does nothing else. CPU time of the calling process, from the array that is sent to",
        f"the array that comes back; {blocks} blocks of {result['calls']} calls of each way, in turn",
        f"({shorter}).",
        "plain boto3 has its own settings; `ready` means that it is given the bytes of that form, and",
        "only sends them. A ratio is of blocks of the same round; its interval is that of the median,",
        "from the 6th to the 15th of 20 (96 %).",
        "",
        f"Machine: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
        f"load average {machine['load_before']} before the run; {machine['date']}.",
    ]


def _ways(result: dict[str, Any]) -> list[str]:
    lines = ["| | CPU-ms per call | lowest to highest |", "|---|---:|---:|"]
    for name, found in result["cpu_ms_per_call"].items():
        lines.append(f"| {name} | {median(found):.2f} | {min(found):.2f} to {max(found):.2f} |")
    return lines


def _ratios(result: dict[str, Any]) -> list[str]:
    found = result["cpu_ms_per_call"]
    lines = ["| client / boto3 | median | interval | wanted | |", "|---|---:|---:|---:|---|"]
    for label, ours, theirs, most in BOUNDS:
        ratios = sorted(a / b for a, b in zip(found[ours], found[theirs], strict=True))
        met = "met" if median(ratios) <= most else "**not met**"
        low, high = interval(ratios)
        lines.append(
            f"| {label} | {median(ratios):.3f}x | {low:.3f}x to {high:.3f}x | at most {most:g}x | {met} |"
        )
    seconds = result["import_seconds"]
    met = "met" if median(seconds) <= WANTED_IMPORT_SECONDS else "**not met**"
    lines.append(
        f"| `import servable_client` | {median(seconds):.2f} s | "
        f"{min(seconds):.2f} s to {max(seconds):.2f} s | at most {WANTED_IMPORT_SECONDS} s | {met} |"
    )
    return lines


def interval(ordered: list[float]) -> tuple[float, float]:
    """Of the median, about 95 %: order statistics, which assume no distribution."""
    # Half of the values, less about two deviations of a binomial: 6th and 15th of 20.
    low = max(0, round(len(ordered) / 2 - len(ordered) ** 0.5 + 0.4) - 1)
    return ordered[low], ordered[len(ordered) - 1 - low]
