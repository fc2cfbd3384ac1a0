"""Measures the share of verdicts that are wrong, and writes docs/verdicts.md.

python -m benchmarks.verdicts [--seed N] [load | rehearse | sleep | tune | replay]...

A false green says that something holds which does not, a false red the contrary. A fresh seed is drawn where
none is given.
"""

import argparse
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.frame import ROOT, Log, Result, clock, read, write
from benchmarks.verdicts import load_gate, rehearse, replay_gate, sleep, tune
from model_packaging.beside import beside

PAGE = ROOT / "docs" / "verdicts.md"
# Simulated runs and searches of each case.
RUNS, SEARCHES = 500, 15
# Days of `rehearse` and comparisons of it, and fresh days on which each is simulated.
REHEARSED, COMPARED, FRESH_DAYS = 80, 6, 20
# Days of `rehearse` that sleep.
SLEPT = 40
GATE = ("met", "NOT met", "cannot be told")

MEASURES: Mapping[str, Callable[[int, Log], Any]] = {
    "load": lambda seed, log: load_gate.trials(seed, RUNS),
    "rehearse": lambda seed, log: rehearse.measured(seed, REHEARSED, COMPARED, FRESH_DAYS, log),
    "sleep": lambda seed, log: sleep.measured(seed, SLEPT, log),
    "tune": lambda seed, log: tune.trials(seed, SEARCHES),
    "replay": lambda seed, log: replay_gate.trials(seed),
}


def page(result: Result) -> str:
    """docs/verdicts.md, from what was measured last."""
    fields = {f"{name}_{part}": "not measured" for name in MEASURES for part in ("green", "red")}
    fields |= {f"{name}_{part}": "" for name in MEASURES for part in ("rows", "command")}
    for name, measured in result.items():
        command = f"python -m benchmarks.verdicts --seed {measured['seed']} {name}"
        fields[f"{name}_command"] = f"Measured on {measured['date']} by `{command}`."
    if rows := result.get("load", {}).get("measured"):
        cases: dict[tuple[str, bool], list[Result]] = {}
        for row in rows:
            cases.setdefault((row["kind"], row["holds"]), []).append(row)
        alone = _between(cases["alone", False], "met")
        fields["load_green"] = (
            f"{alone} where none comes together with another; below, where they do"
        )
        fields["load_red"] = _between(cases["alone", True], "NOT met")
        fields["load_rows"] = "\n".join(
            f"| {kind.replace('_', ' ')} | {load_gate.KEPT if holds else load_gate.BROKEN:.1%} | "
            f"{' | '.join(_between(each, verdict) for verdict in GATE)} |"
            for (kind, holds), each in cases.items()
        )
    if rows := result.get("tune", {}).get("measured"):
        planted = [row for row in rows if row["planted"]]
        nothing = [row for row in rows if not row["planted"]]
        fields["tune_green"] = _counted(nothing, "falsely better")
        fields["tune_red"] = _counted(planted, "not better")
        shown = ("trials", "kept", "better", "not better", "cannot be told")
        fields["tune_rows"] = "\n".join(
            f"| {row['case']} | {' | '.join(str(row[name]) for name in shown)} |" for row in rows
        )
    if measured := result.get("rehearse", {}).get("measured"):
        fields |= rehearse.fields(measured)
    if rows := result.get("sleep", {}).get("measured"):
        fields |= sleep.fields(rows)
    if rows := result.get("replay", {}).get("measured"):
        sides = {holds: [row for row in rows if row["holds"] is holds] for holds in (True, False)}
        fields["replay_green"] = _counted(sides[False], "met", "planted regressions")
        fields["replay_red"] = _counted(sides[True], "NOT met", "replays without one")
        fields["replay_rows"] = "\n".join(
            f"| {row['case']} | {' | '.join(str(row[name]) for name in ('trials', *GATE))} |"
            for row in rows
        )
    return Path(__file__).with_name("page.md").read_text(encoding="utf-8").format_map(fields)


def _between(rows: list[Result], verdict: str) -> str:
    """The least and the greatest share of a verdict over rates, lengths and arrivals."""
    shares = [row[verdict] / row["trials"] for row in rows]
    return f"{min(shares):.1%} to {max(shares):.1%}"


def _counted(rows: list[Result], name: str, what: str = "searches") -> str:
    return f"{sum(row[name] for row in rows):,} of {sum(row['trials'] for row in rows):,} {what}"


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
