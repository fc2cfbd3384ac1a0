"""The articles' experiments, both sides in one run: `make bench-seeds`. Writes result.json and the page.

python -m benchmarks.seeds                     all of them; what was measured before is forgotten
python -m benchmarks.seeds transport settings  these; the others keep what they have, with its time
"""

import argparse
import math
import sys
import time
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks import frame
from benchmarks.frame import Log, Result
from benchmarks.seeds import baseline, bench, settings, splitting, swapping, transport
from benchmarks.seeds.claims import CLAIMS, Row
from benchmarks.tables import row, short, spread, table

EXPERIMENTS: dict[str, ModuleType] = {
    "baseline": baseline,
    "transport": transport,
    "settings": settings,
    "swapping": swapping,
    "splitting": splitting,
}
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
    "settings": [(("here",), ("article", "here"), ("requests_per_second",))],
    "swapping": [
        (("loading",), ("phase",), ("p50_ms", "p99_ms", "seconds")),
        (("back",), (), ("kept_ms", "loaded_again_ms")),
        (("together",), ("way", "busy"), ("p50_ms", "p99_ms")),
    ],
    "splitting": [((), ("where", "way"), ("latency_ms", "parts"))],
}
UNITS = {"_ms": ", ms", "_mb": ", MB", "_per_second": "/s"}
RUNS = (
    "| | run | seconds | model server | computer | load average before | Python |",
    "|---|---|---:|---|---|---:|---|",
)
ARTICLES = ("| | article | here | ratio | wanted | |", "|---|---|---|---:|---|---|")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.seeds")
    parser.add_argument("experiments", nargs="*", help=f"of {', '.join(EXPERIMENTS)}; none: all")
    given = parser.parse_args(arguments).experiments
    if unknown := {*given} - {*EXPERIMENTS}:
        parser.error(f"{', '.join(unknown)}: unknown; allowed: {', '.join(EXPERIMENTS)}")
    return frame.main("seeds", partial(measure, given=given))


def measure(folder: Path, log: Log, *, given: list[str]) -> Result:
    before, run = frame.machine(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    chosen = [name for name in EXPERIMENTS if name in (given or EXPERIMENTS)]
    results = frame.read("seeds") if given else {}
    log("making models")
    bench.make_models(folder, {model for name in chosen for model in EXPERIMENTS[name].MODELS})
    for name in chosen:
        # Now, and not at the end: after Ctrl-C the page says what is kept.
        frame.write("seeds", results)
        frame.write_page()
        log(f"{name}: begins")
        began = time.monotonic()
        results[name] = {
            "run": run,
            "model_server": "local container",
            "machine": before,
            "found": EXPERIMENTS[name].measured(bench.Bench(folder, log)),
            "seconds": round(time.monotonic() - began),
        }
    return results


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
        "runs": [*RUNS, *runs],
        "difference": f"{baseline['found']['largest_difference']:.0e}",
        "mixed": mixed if several else "All experiments were measured in one run.",
        "claims": [*ARTICLES, *claims],
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
