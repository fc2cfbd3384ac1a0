"""Which point is worth measuring next, and when none is.

One more measurement may find a better point, or a better answer among those that were measured.
Every gain is of logarithms, so about relative.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from servable.tune.search.gaussian_process import Array, Expected, GaussianProcess
from servable.tune.search.space import Space
from servable.tune.search.trial import TRIALS, bent, logarithms

# Measured first, before a model is asked.
STARTS = 10
# Every second one differs in one setting from one of the best: the others look everywhere.
LOCAL_EVERY, AROUND = 2, 3
# From here on the question is which of them is the best, and no longer where others may be. This
# and the next are of TRIALS: where there are more, as much later; where fewer, not sooner.
ANSWER_FROM = 25
# From here on every second one repeats a point: each is known by one noisy measurement and by what
# is beside it, and it is one of them that is recommended.
AGAIN_FROM, AGAIN_EVERY = 30, 2
# The last ones repeat too: what is first seen then is known too little to be recommended.
LAST = 3
# How many of the points that could be better are compared for that.
COMPARED = 60
# Far less than the gain of a load test, on the average; but it is the average of many small losses
# and a few large ones. With 0.001 the worst of the development seeds lost 11 %.
WORTH = 0.0003
# From here on a flat surface may be called one; by FLAT_UNTIL it must be, or it is not flat.
FLAT_FROM, FLAT_UNTIL = 12, 15
# The scatter that noise alone exceeds once in a hundred times, in standard deviations of the
# chi-squared distribution's normal approximation (Wilson and Hilferty, 1931).
UNLIKELY = 2.326
# Points at which a normal distribution is weighed, exact for polynomials up to the 23rd degree.
_AT, _WEIGHTS = np.polynomial.hermite_e.hermegauss(12)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# Noise of "it ran" (1) and "it did not" (0): a setting that runs today and not tomorrow is rare.
_RAN_NOISE = 0.1


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The next point, or the reason to stop."""

    number: int | None
    stopped: str | None = None
    flat: bool = False


def propose(
    space: Space,
    starts: Sequence[int],
    tried: Sequence[int],
    values: Sequence[float],
    noise: float,
    trials: int = TRIALS,
) -> Proposal:
    """`tried`: numbers of points, with repeats; `values`: theirs. `noise`: of one, relative.

    `trials`: how many there may be, at most.
    """
    if len(tried) < len(starts):
        return Proposal(number=starts[len(tried)])
    logs, ran = logarithms(values), np.array(values) > 0
    if FLAT_FROM <= len(tried) <= FLAT_UNTIL and flat(logs, noise) and ran.all():
        return Proposal(number=None, stopped=_flat_sentence(logs), flat=True)
    at = space.features
    # What did not run says nothing of how good it would be; a chance says whether it would run.
    learnt = ran if ran.any() else ~ran
    known = np.array(tried)[learnt]
    model = GaussianProcess(at[known], bent(logs[learnt]), noise=noise)
    runs = chance_to_run(at, at[list(tried)], ran)
    expected = model.expected(at)
    gains = runs * _mean(
        expected_improvement(one, float(one.mean[known].max())) for one in expected
    )
    best = int(gains.argmax())
    most = float(gains[best])
    if most < WORTH and len(tried) >= FLAT_FROM:
        sentence = f"another measurement is expected to gain {most:.2%}: below {WORTH:.2%}"
        return Proposal(number=None, stopped=sentence)
    later = max(1.0, trials / TRIALS)
    if len(tried) >= ANSWER_FROM * later:
        again = len(known) >= AGAIN_FROM * later and (
            len(known) % AGAIN_EVERY == 0 or len(tried) >= trials - LAST
        )
        others = known if again else np.argsort(-gains, kind="stable")[:COMPARED]
        best = _answering(model, at, known, np.union1d(others, known), runs)
    elif len(tried) % LOCAL_EVERY == 0:
        near = gains * _beside(space.coordinates, known, _mean(one.mean for one in expected))
        best = int(near.argmax()) if near.max() > 0 else best
    return Proposal(number=best)


def _beside(at: Array, known: NDArray[np.intp], mean: Array) -> NDArray[np.bool_]:
    """Which points differ in one setting at most from one of the best that were measured."""
    measured = np.unique(known)
    best = measured[np.argsort(-mean[measured], kind="stable")[:AROUND]]
    differs = (np.abs(at[:, None, :] - at[best][None]) > 1e-9).sum(axis=-1)
    found: NDArray[np.bool_] = differs.min(axis=1) <= 1
    return found


def _answering(
    model: GaussianProcess,
    at: Array,
    known: NDArray[np.intp],
    compared: NDArray[np.intp],
    runs: Array,
) -> int:
    """The point that changes the answer most, of those `compared`, each once."""
    measured, points = np.isin(compared, known), at[compared]
    each = zip(model.expected(points), model.together(points), strict=True)
    gains = _mean(knowledge_gradient(one, together, measured) for one, together in each)
    return int(compared[(gains * runs[compared]).argmax()])


def _mean(each: Iterable[Array]) -> Array:
    """By all likely answers of the model."""
    found: Array = np.mean(list(each), axis=0)
    return found


def expected_improvement(one: Expected, best: float) -> Array:
    """Augmented expected improvement over `best`, of each point.

    What is known as well as a measurement could tell it is not measured again: a repeat improves
    little, unless it could still win.
    Source: Huang, Allen, Notz and Zeng, Global Optimization of Stochastic Black-Box Systems via
    Sequential Kriging Meta-Models, 2006.
    """
    z = (one.mean - best) / one.deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    told = 1 - one.noise / np.sqrt(one.deviation**2 + one.noise**2)
    found: Array = one.deviation * (z * _below(z) + density) * told
    return found


def knowledge_gradient(one: Expected, together: Array, tried: NDArray[np.bool_]) -> Array:
    """Knowledge gradient, of each point: how much better the answer is expected to be afterwards.

    The answer is what is then expected most of, among the points that were measured. `together`:
    covariance of the points with each other.
    Source: Frazier, Powell and Dayanik, The Knowledge-Gradient Policy for Correlated Normal
    Beliefs, 2009.
    """
    own = np.maximum(np.diag(together), 1e-12)
    moved = together / np.sqrt(own + one.noise**2)[:, None]
    others = one.mean[tried, None] + moved[:, tried, None] * _AT
    itself = one.mean[:, None] + np.diag(moved)[:, None] * _AT
    found: Array = np.maximum(others.max(axis=1), itself) @ _WEIGHTS - one.mean[tried].max()
    return np.maximum(found, 0.0)


def chance_to_run(at: Array, tried: Array, ran: NDArray[np.bool_]) -> Array:
    """Return the chance that each point `at` runs at all, from which of those tried did."""
    if ran.all() or not ran.any():
        return np.ones(len(at))
    expected = GaussianProcess(tried, ran.astype(float), noise=_RAN_NOISE, drawn=0).expected(at)[0]
    return _below((expected.mean - 0.5) / np.hypot(expected.deviation, _RAN_NOISE))


def _below(z: Array) -> Array:
    """Return the normal distribution function at `z`."""
    found: Array = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(z / math.sqrt(2)))
    return found


def flat(logs: Array, noise: float) -> bool:
    """Whether points this different scatter no more than measurements of one point would."""
    free = len(logs) - 1
    scatter = float(((logs - logs.mean()) ** 2).sum()) / noise**2
    at_most = free * (1 - 2 / (9 * free) + UNLIKELY * math.sqrt(2 / (9 * free))) ** 3
    return scatter <= at_most


def _flat_sentence(logs: Array) -> str:
    spread = math.expm1(2 * float(logs.std(ddof=1)))
    return (
        f"the surface is flat: {len(logs)} points as different as the space allows scatter by "
        f"{spread:.0%} (two standard deviations), no more than measurements of one point do; "
        "no setting tried here matters"
    )
