"""How often verdicts are wrong: measures it, and writes docs/verdicts.md.

python -m benchmarks.verdicts [--seed N] [load | conformance | tune]...

A false green says that something holds which does not, a false red the contrary. A fresh seed is drawn where
none is given.
"""

import argparse
import functools
import importlib
import random
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from benchmarks.frame import ROOT, Log, Result, clock, read, write
from model_packaging.beside import beside
from servable.conformance.command import conformance
from servable.conformance.observed_cases import cases, containers
from servable.conformance.prepare import prepare
from servable.latencies import Latencies
from servable.load.gate import verdict
from servable.load.objective import Objective
from servable.precision import Interval
from servable_local.container.launch import launch
from tests.conformance.deviations import DEVIATIONS, Deviation, proxy
from tests.servable.tune.measured import curve, step

PAGE = ROOT / "docs" / "verdicts.md"
RATE_RPS = 100.0
GATE_RUNS, SOUND_RUNS, SEARCHES = 2000, 20, 15
# The shares of requests above the objective: 1 % may be.
SHARES = (0.015, 0.011, 0.009, 0.005)
BROKEN_BY_A_TENTH, KEPT_BY_A_TENTH = 0.011, 0.009
LENGTHS = (1_000, 3_000, 9_000)
# How many slow requests follow each other.
STALLS = (1, 10)


def load_gate(seed: int, log: Log) -> list[Result]:
    """Judge simulated runs whose slow requests come alone, or together in stalls."""
    rows = []
    for stall in STALLS:
        for share in SHARES:
            for requests in LENGTHS:
                chance = random.Random(f"{seed} {stall} {share} {requests}")
                codes = [_judged(chance, share, requests, stall) for _ in range(GATE_RUNS)]
                shares = {str(code): codes.count(code) / GATE_RUNS for code in (0, 1, 3)}
                rows.append({"stall": stall, "share": share, "requests": requests, "codes": shares})
                log(f"load --gate: {rows[-1]}")
    return rows


def _judged(chance: random.Random, share: float, requests: int, stall: int) -> int:
    return _code(requests, sum(stall for _ in range(requests // stall) if chance.random() < share))


@functools.cache
def _code(requests: int, slow: int) -> int:
    measured = step(
        None,
        RATE_RPS,
        rate_rps=RATE_RPS,
        seconds=requests / RATE_RPS,
        throughput_rps=Interval(value=RATE_RPS, low=RATE_RPS, high=RATE_RPS),
        latencies=Latencies.of([10.0] * (requests - slow) + [200.0] * slow),
    )
    return verdict(curve(measured), Objective(most_ms=100)).exit_code


def conformance_verdicts(seed: int, log: Log) -> Result:
    """Ask the local container without code, as it is and with each planted deviation before it."""
    (plain, *_) = containers(case for case in cases() if case.image == "2.20")
    sound: list[int] = []
    codes: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare([plain], Path(folder))
        archive = Path(folder) / "plain.tar.gz"
        with launch(archive, plain.variables, tensorflow=plain.image) as container:
            for name, deviation in [*[("", Deviation())] * SOUND_RUNS, *DEVIATIONS.items()]:
                with proxy(container.url, deviation) as url:
                    ran = CliRunner().invoke(conformance, ["--url", url], standalone_mode=False)
                code = 2 if ran.exception else ran.return_value  # main() ends with 2 then
                log(f"conformance: {name or 'as it is'}: {code}")
                if name:
                    codes[name] = code
                else:
                    sound.append(code)
    return {"sound": sound, "deviations": codes}


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
