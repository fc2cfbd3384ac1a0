"""Which point is worth measuring next, and when none is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from servable.tune.search import gain
from servable.tune.search.budget import TRIALS
from servable.tune.search.kernel import Array
from servable.tune.search.model import Expected, Model
from servable.tune.search.opinions import Opinions
from servable.tune.search.space import Space
from servable.tune.search.sudden import Sudden
from servable.tune.search.trial import bent, logarithms

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
# Of the points that could be better, how many are compared for that.
COMPARED = 60
# Far less than a load test is worth, on the average; but it is the average of many small losses
# and a few large ones. With 0.001 the worst of the development seeds lost 11 %.
WORTH = 0.0003
# From here on a flat surface may be called one; by FLAT_UNTIL it must be, or it is not flat.
FLAT_FROM, FLAT_UNTIL = 12, 15
# The scatter that noise alone exceeds once in a hundred times, in standard deviations of the
# chi-squared distribution's normal approximation (Wilson and Hilferty, 1931).
UNLIKELY = 2.326


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The next point, or the reason to stop."""

    number: int | None
    stopped: str | None = None
    flat: bool = False
    expected_gain: float | None = None
    """Relative, of the best."""


def propose(
    space: Space,
    starts: Sequence[int],
    tried: Sequence[int],
    values: Sequence[float],
    noise: float,
    trials: int = TRIALS,
    *,
    sudden: Sudden | None = None,
) -> Proposal:
    """`tried`: numbers of points, with repeats; `values`: theirs. `noise`: of one, relative.

    `trials`: how many there may be, at most. `sudden`: spares what it learnt of the first of them.
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
    sudden = sudden or Sudden(space, noise=noise)
    told = sudden.learn(known.tolist(), np.array(values)[learnt].tolist())
    model = Model(at[known], bent(logs[learnt]), noise=noise)
    opinions = Opinions(model, at, sudden if told else None)
    runs = gain.chance_to_run(at, at[list(tried)], ran)
    expected = opinions.expected(np.arange(len(space)))
    gains = runs * opinions.average(
        [gain.of_finding(one, float(one.mean[known].max())) for one in expected]
    )
    best = int(gains.argmax())
    most = float(gains[best])
    if most < WORTH and len(tried) >= FLAT_FROM:
        sentence = f"another measurement is expected to gain {most:.2%}: below {WORTH:.2%}"
        return Proposal(number=None, stopped=sentence, expected_gain=most)
    later = max(1.0, trials / TRIALS)
    if len(tried) >= ANSWER_FROM * later:
        again = len(known) >= AGAIN_FROM * later and (
            len(known) % AGAIN_EVERY == 0 or len(tried) >= trials - LAST
        )
        others = known if again else np.argsort(-gains, kind="stable")[:COMPARED]
        best = _answering(opinions, expected, known, np.union1d(others, known), runs)
    elif len(tried) % LOCAL_EVERY == 0:
        mean = opinions.average([one.mean for one in expected])
        near = gains * _beside(space.coordinates, known, mean)
        best = int(near.argmax()) if near.max() > 0 else best
    return Proposal(number=best, expected_gain=most)


def _beside(at: Array, known: NDArray[np.intp], mean: Array) -> NDArray[np.bool_]:
    """Which points differ in one setting at most from one of the best that were measured."""
    measured = np.unique(known)
    best = measured[np.argsort(-mean[measured], kind="stable")[:AROUND]]
    differs = (np.abs(at[:, None, :] - at[best][None]) > 1e-9).sum(axis=-1)
    found: NDArray[np.bool_] = differs.min(axis=1) <= 1
    return found


def _answering(
    opinions: Opinions,
    expected: Sequence[Expected],
    known: NDArray[np.intp],
    compared: NDArray[np.intp],
    runs: Array,
) -> int:
    """The point that changes the answer most, of those `compared`, each once."""
    measured = np.isin(compared, known)
    told = opinions.average(
        [
            gain.of_answering(one.of(compared), together, measured)
            for one, together in zip(expected, opinions.together(compared), strict=True)
        ]
    )
    return int(compared[(told * runs[compared]).argmax()])


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
