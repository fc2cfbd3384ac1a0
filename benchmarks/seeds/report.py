"""The articles' part of docs/performance.md: every claim, and a table of spreads for each list of rows."""

import math
from typing import Any

from benchmarks.frame import Result
from benchmarks.seeds.claims import CLAIMS, Row
from benchmarks.tables import row, short, spread, table

Table = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
# Experiment -> (path to its rows, keys that tell rows apart, numbers)
TABLES: dict[str, list[Table]] = {
    "baseline": [
        (("requests",), ("way", "rows"), ("latency_ms", "cpu_ms", "model_server_ms")),
        (("throughput",), ("way", "workers"), ("requests_per_second",)),
        (("memory", "growing"), ("way", "weights_mb"), ("memory_mb",)),
        (("memory", "flask_wall"), ("workers",), ("memory_mb",)),
        (("memory", "ours_at_twelve"), ("workers",), ("memory_mb",)),
    ],
    "transport": [((), ("transport", "form", "rows"), ("latency_ms",))],
    "settings": [
        (("here",), ("article", "here"), ("requests_per_second",)),
        (("simulated", "rows"), ("article",), ("requests_per_second",)),
    ],
    "swapping": [
        (("loading",), ("phase",), ("p50_ms", "p99_ms", "seconds")),
        (("back",), (), ("kept_ms", "loaded_again_ms")),
        (("together",), ("way", "busy"), ("p50_ms", "p99_ms")),
    ],
    "splitting": [((), ("where", "way"), ("latency_ms", "parts"))],
}
UNITS = {"_ms": ", ms", "_mb": ", MB", "_per_second": "/s"}


def fields(result: Result) -> dict[str, Any]:
    runs = []
    for name, experiment in result.items():
        machine = experiment["machine"]
        computer = f"{machine['cores']} cores, {machine['processor']}"
        about = (experiment["run"], str(experiment["seconds"]), experiment["model_server"])
        runs.append(row(name, *about, computer, str(machine["load_before"]), machine["python"]))
    claims = [
        claim.row()
        for name, of_experiment in CLAIMS.items()
        if name in result
        for claim in of_experiment(result[name]["found"])
    ]
    several = len({experiment["run"] for experiment in result.values()}) > 1
    mixed = "Measured in several runs; no number is compared with one of another run."
    experiments = {name: _tables(name, result) for name in TABLES}
    baseline = result.get("baseline", {"found": {"largest_difference": math.nan}})
    return experiments | {
        "runs": [
            "| | run | seconds | model server | computer | load average before | Python |",
            "|---|---|---:|---|---|---:|---|",
            *runs,
        ],
        "difference": f"{baseline['found']['largest_difference']:.0e}",
        "mixed": mixed if several else "All experiments were measured in one run.",
        "claims": [
            "| | article | here | ratio | wanted | |",
            "|---|---|---|---:|---|---|",
            *claims,
        ],
    }


def _tables(name: str, result: Result) -> list[str]:
    if name not in result:
        return ["Not measured here yet."]
    lines: list[str] = []
    for path, keys, numbers in TABLES[name]:
        rows = result[name]["found"]
        for part in path:
            rows = rows.get(part, [])
        if rows:
            lines += ["", *_spreads(rows if isinstance(rows, list) else [rows], keys, numbers)]
    return lines[1:]


def _spreads(rows: list[Row], keys: tuple[str, ...], numbers: tuple[str, ...]) -> list[str]:
    """Spreads of these numbers, a line for each combination of the keys' values."""
    groups: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for measured in rows:
        group = groups.setdefault(tuple(_text(measured[key]) for key in keys), {})
        for number in numbers:
            value = measured[number]
            by_workers = value if isinstance(value, dict) else {"": value}
            for workers, repeat in by_workers.items():
                column = f"{_name(number)}, workers: {workers}" if workers else _name(number)
                group.setdefault(column, []).append(repeat)
    head = (*map(_name, keys), *next(iter(groups.values())))
    return table(head, [(*group, *map(spread, cells.values())) for group, cells in groups.items()])


def _text(value: Any) -> str:
    if isinstance(value, float):
        return short(value)
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _name(key: str) -> str:
    for suffix, unit in UNITS.items():
        key = key.removesuffix(suffix) + unit if key.endswith(suffix) else key
    return key.replace("_", " ")
