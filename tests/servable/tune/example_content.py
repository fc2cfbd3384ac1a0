"""What a report shows, made from a surface and the simulator: no endpoint is measured."""

import dataclasses
import functools

import numpy as np

from infra.parameters.environment import Environment
from servable.load.load_test import Schedule
from servable.load.objective import Objective, find_knee
from servable.tune.page import Content
from servable.tune.recommendation import recommend
from servable.tune.search.recommended import estimate_effects
from servable.tune.search.search import Search
from servable.tune.search.space import Budget, Measurement, Point
from tests.servable.tune.measured import require
from tests.servable.tune.queueing import curve
from tests.servable.tune.surfaces import FAMILIES, NOISE

OBJECTIVE = Objective(most_ms=100.0)
ENVIRONMENT = Environment.model_validate(
    {
        "account": "123456789012",
        "region": "eu-west-1",
        "endpoint": {"name": "ranker"},
        "models": {"ranker": {"saved_model": "model"}},
        "variants": {"primary": {"model": "ranker", "instance_type": "ml.c5.xlarge"}},
        "traffic": {"peak_rps": 1000, "quiet_rps": 20},
        "rollout": {"strategy": "canary", "canary_percent": 10},
    }
)


@functools.cache
def content(seed: int = 0, trials: int = 16, label: str = "ranker, simulated") -> Content:
    """A search of a few trials on a surface, with a simulated curve of the choice."""
    surface = FAMILIES["queueing, 4 cores"](seed)
    space, noise = surface.space, np.random.default_rng(seed)
    best_rps = surface.values.max()

    def measure(point: Point) -> Measurement:
        known = surface.values[space.find_number(point) or 0]
        rps = float(known * np.exp(noise.normal(0.0, NOISE)))
        if rps == 0:
            return Measurement(value=0.0, failure="did not start: out of memory")
        about = {
            "rps": {"value": rps, "low": 0.97 * rps, "high": 1.03 * rps},
            "p99_ms": 90 * (best_rps / rps) ** 0.3,
        }
        return Measurement(value=rps, about=about)

    found = Search(space, surface.wanted).run(measure, Budget(trials=trials))
    choice = require(found.choice)
    schedule = Schedule(loop="closed", objective=OBJECTIVE)
    measured = curve(4, 15.0, schedule, seconds=20.0, seed=seed)
    at = find_knee(measured, OBJECTIVE)
    plain = Content(
        label=label, curve=measured, knee=at, trials=found.trials, stopped=found.stopped
    )
    effects = estimate_effects(space, found.trials, choice)
    advice = recommend(ENVIRONMENT, "primary", plain, choice=choice, effects=effects)
    return dataclasses.replace(plain, recommendation=advice)
