"""How often verdicts are wrong: measures it, and writes docs/verdicts.md.

python -m benchmarks.verdicts [--seed N] [load | conformance | tune]...

A false green says that something holds which does not, a false red the contrary. A fresh seed is drawn where
none is given.
"""

import argparse
import importlib
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.frame import ROOT, Log, Result, clock, read, write
from model_packaging.beside import beside
from tests.benchmarks.verdict_trials import GATE_RUNS, conformance_verdicts, load_gate

PAGE = ROOT / "docs" / "verdicts.md"
SEARCHES = 15
BROKEN_BY_A_TENTH, KEPT_BY_A_TENTH = 0.011, 0.009


def tune_verdicts(seed: int, log: Log) -> list[Result]:
    """Search made-up endpoints."""
    rows: list[Result] = importlib.import_module("benchmarks.verdicts.tune").trials(seed, SEARCHES)
    return rows


MEASURES: Mapping[str, Callable[[int, Log], Any]] = {
    "load": load_gate,
    "conformance": conformance_verdicts,
    "tune": tune_verdicts,
}


def page(result: Result) -> str:
    """docs/verdicts.md, from what was measured last."""
    fields = {f"{name}_{part}": "not measured" for name in MEASURES for part in ("green", "red")}
    fields |= {f"{name}_{part}": "" for name in MEASURES for part in ("rows", "command")}
    for name, measured in result.items():
        command = f"python -m benchmarks.verdicts --seed {measured['seed']} {name}"
        fields[f"{name}_command"] = f"Measured on {measured['date']} by `{command}`."
    if rows := result.get("load", {}).get("measured"):
        fields["load_green"] = _worst(rows, BROKEN_BY_A_TENTH, "0")
        fields["load_red"] = _worst(rows, KEPT_BY_A_TENTH, "1")
        fields["load_rows"] = "\n".join(
            f"| {row['share']:.1%} | {row['stall']} | {row['requests']:,} | "
            f"{' | '.join(f'{share:.1%}' for share in row['codes'].values())} |"
            for row in rows
        )
    if measured := result.get("conformance", {}).get("measured"):
        sound, codes = measured["sound"], measured["deviations"]
        green = sum(code == 0 for code in codes.values())
        fields["conformance_green"] = f"{green} of {len(codes)} planted deviations"
        fields["conformance_red"] = f"{sum(map(bool, sound))} of {len(sound)} runs"
        fields["conformance_rows"] = "\n".join(f"| {name} | {codes[name]} |" for name in codes)
    if rows := result.get("tune", {}).get("measured"):
        planted = [row for row in rows if row["planted"]]
        nothing = [row for row in rows if not row["planted"]]
        fields["tune_green"] = _counted(nothing, "falsely better")
        fields["tune_red"] = _counted(planted, "not better")
    return Path(__file__).with_name("page.md").read_text(encoding="utf-8").format_map(fields)


def _worst(rows: list[Result], share: float, code: str) -> str:
    """The worst of all lengths of a run, where each request is slow by itself."""
    alone = [row for row in rows if (row["stall"], row["share"]) == (1, share)]
    return f"at most {max(row['codes'][code] for row in alone):.1%} of {GATE_RUNS:,} runs"


def _counted(rows: list[Result], name: str) -> str:
    return f"{sum(row[name] for row in rows):,} of {sum(row['trials'] for row in rows):,} searches"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    given = parser.parse_args()
    log, result = clock(), read("verdicts")
    for name in given.names or MEASURES:
        date = time.strftime("%Y-%m-%d")
        measured = MEASURES[name](given.seed, log)
        result[name] = {"seed": given.seed, "date": date, "measured": measured}
        write("verdicts", result)
    with beside(PAGE) as file:
        file.write(page(result).encode())
