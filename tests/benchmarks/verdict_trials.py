"""Trials of verdicts on what is known to hold, or not to: `make bench-verdicts` counts them."""

import functools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

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

Log = Callable[[str], None]
RATE_RPS = 100.0
GATE_RUNS, SOUND_RUNS = 2000, 20
# The shares of requests above the objective: 1 % may be.
SHARES = (0.015, 0.011, 0.009, 0.005)
LENGTHS = (1_000, 3_000, 9_000)
# How many slow requests follow each other.
STALLS = (1, 10)


def load_gate(seed: int, log: Log) -> list[dict[str, Any]]:
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


def conformance_verdicts(seed: int, log: Log) -> dict[str, Any]:
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
