"""Which point is worth measuring next, and when none is.

One more measurement may find a better point, or a better answer among those that were measured.
Every gain is of logarithms, so about relative.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.gaussian_process import Array, GaussianProcess, Prediction
from servable.tune.search.space import Space
from servable.tune.search.trial import (
    TRIALS,
    bent,
    logarithms,
    noise_of,
    undisturbed,
)

# Measured first, before a model is asked.
STARTS = 10
# Every second one differs in one setting from one of the best: the others look everywhere.
LOCAL_EVERY, AROUND = 2, 3
# From here on (of TRIALS; of more as much later) every second one, and the last ones, repeat what could
# still be the best: it is one of those known that is recommended.
AGAIN_FROM, AGAIN_EVERY, LAST = 25, 2, 3
# Far less than a load test may gain, on the average; but it is the average of many small losses
# and a few large ones. With 0.001 the worst of the development seeds lost 11 %.
WORTH = 0.0003
STOP_FROM = 12
# Today's settings are measured again at once, so often at most, and once for so many trials: all else
# is compared with them, and how far repeats differ is the noise.
MOST_REPEATS, REPEAT_EVERY = 2, 16
_below = np.vectorize(NormalDist().cdf, otypes=[float])
# Noise of "it ran" (1) and "it did not" (0): few settings run today and not tomorrow.
_RAN_NOISE = 0.1


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The next point, or the reason to stop."""

    number: int | None
    stopped: str | None = None


def propose(
    space: Space,
    starts: Sequence[int],
    tried: Sequence[int],
    values: Sequence[float],
    trials: int = TRIALS,
) -> Proposal:
    """`tried`: numbers of points, with repeats; `values`: theirs. `trials`: how many there may be."""
    first = [starts[0]] * min(MOST_REPEATS, trials // REPEAT_EVERY) + [*starts]
    for number in first:
        if tried.count(number) < first.count(number):
            return Proposal(number=number)
    numbers, ran = np.array(tried), np.array(values) > 0
    calm = undisturbed(numbers, values)
    logs = logarithms(values)
    noise = noise_of(numbers[calm & ran], logs[calm & ran])
    at = space.features
    # What did not run says nothing of how good it would be; a chance says whether it would run.
    learnt = ran & calm if ran.any() else ~ran
    fitted = numbers[learnt]
    model = GaussianProcess(at[fitted], bent(logs[learnt]), noise=noise)
    runs = chance_to_run(at, at[list(tried)], ran)
    expected = model.expected(at)
    gains = runs * expected_improvement(expected, float(expected.mean[fitted].max()))
    best = int(gains.argmax())
    most = float(gains[best])
    if most < WORTH and len(tried) >= STOP_FROM:
        sentence = f"another measurement is expected to gain {most:.2%}: below {WORTH:.2%}"
        return Proposal(number=None, stopped=sentence)
    turn = len(tried) % AGAIN_EVERY == 0
    if len(tried) >= AGAIN_FROM * max(1.0, trials / TRIALS) and (
        turn or len(tried) >= trials - LAST
    ):
        best = int(fitted[gains[fitted].argmax()])
    elif len(tried) % LOCAL_EVERY == 0:
        # Points that differ in one setting at most from one of the best that were measured.
        measured, at = np.unique(fitted), space.coordinates
        around = measured[np.argsort(-expected.mean[measured], kind="stable")[:AROUND]]
        differs = (np.abs(at[:, None, :] - at[around][None]) > 1e-9).sum(axis=-1)
        near = gains * (differs.min(axis=1) <= 1)
        best = int(near.argmax()) if near.max() > 0 else best
    return Proposal(number=best)


def expected_improvement(prediction: Prediction, best: float) -> Array:
    """Augmented expected improvement over `best`, of each point.

    What is known as well as a measurement could tell it is not measured again: a repeat improves
    little, unless it could still win.
    Source: Huang, Allen, Notz and Zeng, Global Optimization of Stochastic Black-Box Systems via
    Sequential Kriging Meta-Models, 2006.
    """
    z = (prediction.mean - best) / prediction.deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    reduction = 1 - prediction.noise / np.sqrt(prediction.deviation**2 + prediction.noise**2)
    improvement: Array = prediction.deviation * (z * _below(z) + density) * reduction
    return improvement


def chance_to_run(at: Array, tried: Array, ran: NDArray[np.bool_]) -> Array:
    """Return the chance that each point `at` runs at all, from which of those tried did."""
    if ran.all() or not ran.any():
        return np.ones(len(at))
    expected = GaussianProcess(tried, ran.astype(float), noise=_RAN_NOISE).expected(at)
    chance: Array = _below((expected.mean - 0.5) / np.hypot(expected.deviation, _RAN_NOISE))
    return chance
