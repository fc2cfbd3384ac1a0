"""A trial's curve as what a search learns from."""

import dataclasses
from typing import Any

from servable.load.knee import Knee
from servable.load.measurement import LoadCurve
from servable.tune.objective import Objective
from servable.tune.search.trial import Measured


def measured_of(curve: LoadCurve, found: Knee | None, objective: Objective, name: str) -> Measured:
    """Its knee is the value; `name`: of the curve, for the report."""
    about: dict[str, Any] = {"curve": name}
    if found is None:
        lowest = curve.valid[0].latencies.percentile_ms(objective.percent)
        why = f"over {objective.most_ms:g} ms: {lowest:.4g} at the lowest load"
        return Measured(value=0.0, failure=why, about=about)
    steps = [step for step in curve.valid if step.load <= found.load.value] or [curve.valid[0]]
    step = steps[-1]
    about |= {
        "rps": dataclasses.asdict(found.rps),
        "users": found.load.value,
        "p50_ms": step.latencies.p50_ms,
        "p99_ms": step.latencies.p99_ms,
    }
    return Measured(value=found.rps.value, about=about)


def lateness(curve: LoadCurve, found: Knee | None) -> str | None:
    """Why this curve cannot be compared with others: what may be its knee was measured late."""
    if not curve.valid:
        return curve.steps[0].refused
    highest = max(curve.steps, key=lambda step: step.load)
    if found is None or found.bounded:
        return None
    # Without its highest load it only seems to bear less than the others.
    return highest.refused
