"""What each setting does, as the model of a search expects it."""

from collections.abc import Sequence

import numpy as np

from servable.load.interval import Interval
from servable.report.page.content import Effect
from servable.tune.search.model import WITHIN_95, Model
from servable.tune.search.recommended import Choice
from servable.tune.search.space import Space
from servable.tune.search.trial import Trial, logarithms


def effects(space: Space, trials: Sequence[Trial], choice: Choice) -> dict[str, tuple[Effect, ...]]:
    """setting -> each value that the space has beside the choice's others."""
    known = [(space.number(trial.point), trial.measured.value) for trial in trials]
    measured = [(number, value) for number, value in known if number is not None]
    at = space.coordinates
    model = Model(
        at[[number for number, _ in measured]],
        logarithms([value for _, value in measured]),
        noise=choice.noise,
    )
    chosen = space.number(choice.point)
    if chosen is None:
        return {}
    found: dict[str, tuple[Effect, ...]] = {}
    for name, values in space.grid.items():
        row = []
        for value in values:
            number = space.number({**choice.point, name: value})
            if number is None:
                continue
            mean, deviation = (
                (0.0, 0.0) if number == chosen else model.difference(at[number], at[chosen])
            )
            relative = Interval(
                value=float(np.exp(mean)),
                low=float(np.exp(mean - WITHIN_95 * deviation)),
                high=float(np.exp(mean + WITHIN_95 * deviation)),
            )
            row.append(Effect(value=value, relative=relative))
        if len(row) > 1:
            found[name] = tuple(row)
    return found
