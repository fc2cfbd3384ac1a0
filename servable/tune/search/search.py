"""Run the search: choose a point, measure it, until the budget ends or no gain is expected.

Rules of thumb come first, and then the points furthest from those tried. After that, one more
measurement may find a better point, or improve the estimate of those already measured. Every gain
is a difference of logarithms, and so approximately relative.
"""

import dataclasses
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from model_packaging.beside import create_private_folder, open_private
from servable.tune.search.gaussian_process import Array, GaussianProcess, Prediction
from servable.tune.search.recommended import ChosenPoint, choose_point, list_values, plan_pairs
from servable.tune.search.space import (
    BATCH_SIZE,
    OF_BATCHING,
    TRIALS,
    WORKER_CLASS,
    WORKER_THREADS,
    Budget,
    Measurement,
    Point,
    Ranks,
    Space,
    Trial,
    Value,
    compress_poor_values,
    compute_logarithms,
    estimate_noise,
    find_undisturbed,
)

# How many of the unknown points that could come next are looked at.
LOOKED_AT = 200


def list_rules_of_thumb(space: Space, *, vcpus: int) -> list[Point]:
    """Return settings that others found to be good on an instance of this size.

    Sources: the retrieval model of S2 (many workers, a server for each four vCPUs, one thread
    each), https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/;
    if there is only one server, it takes a call for each vCPU at once, or the others idle;
    one server with all threads, TensorFlow's own default; more servers than that article used;
    batching in one server with all threads and half the workers, as AWS China's article on the
    container did for a ranking model.
    """
    largest = [one for one in space.grid.get(BATCH_SIZE, ()) if isinstance(one, int)]
    smallest = space.grid.get(BATCH_SIZE, (None,))[0]
    fourth = max(1, vcpus // 4)
    every = (
        (fourth, vcpus, 1 if fourth > 1 else vcpus, 1, "gevent", 1),
        (1, vcpus, vcpus, vcpus, "sync", 1),
        (max(1, vcpus // 2), 2 * vcpus, 2, 1, "gthread", 2),
        (1, max(1, vcpus // 2), vcpus, 1, "gthread", 8),
    )
    names = ("tfs_processes", "gunicorn_workers", "inter_op_threads", "intra_op_threads")
    points: list[dict[str, Value]] = [
        {
            **dict(zip((*names, WORKER_CLASS, WORKER_THREADS), settings, strict=True)),
            "omp_threads": 1,
            "onednn": True,
            BATCH_SIZE: smallest,
            OF_BATCHING[0]: 1000,
            OF_BATCHING[1]: max(1, vcpus // int(settings[0])),
        }
        for settings in every
    ]
    points[2]["onednn"] = False
    points[3][BATCH_SIZE] = largest[-1] if largest else smallest
    return [*points]


def select_starts(space: Space, wanted: Sequence[Point], *, count: int, seed: int) -> list[int]:
    """Return the numbers of the `count` points to measure first.

    They are the points nearest to the wanted ones, then points far from those.
    """
    found = list(dict.fromkeys(space.find_nearest(one) for one in wanted))[:count]
    chance = np.random.default_rng([8, seed])
    at = space.coordinates
    while len(found) < min(count, len(space)):
        some = chance.choice(len(space), size=min(LOOKED_AT, len(space)), replace=False)
        if not found:
            found.append(int(some[0]))
            continue
        apart = np.abs(at[some][:, None] - at[found][None]).sum(axis=-1).min(axis=1)
        if apart.max() == 0:
            some = np.setdiff1d(np.arange(len(space)), found)[:1]
            apart = np.zeros(1)
        found.append(int(some[apart.argmax()]))
    return found


# Measured first, before a model is asked; of a large space fewer, since a point far away tells little of it.
STARTS, STARTS_OF_MANY = 10, 6
# Every second one differs in one setting from one of the best: the others look everywhere.
LOCAL_EVERY, AROUND = 2, 3
# From here on (of TRIALS; of more as much later) every second one, and the last ones, repeat what could
# still be the best: it is one of those known that is recommended.
AGAIN_FROM, AGAIN_EVERY, LAST = 25, 2, 3
# Of a space with more points than this a model predicts those that differ in few settings from the best, and
# some by chance. Only the last ones repeat, and two of three differ in one setting from one of the best: a
# model of the good ones alone (logarithms below the best) sees their small differences.
MANY, DIFFERING, BY_CHANCE = 8000, 2, 1000
GOOD, FAR_EVERY = 0.7, 3
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
    """Propose the next point to measure.

    `tried`: numbers of the measured points, with repeats; `values`: their values. `trials`: the
    maximum.
    """
    first = [starts[0]] * min(MOST_REPEATS, trials // REPEAT_EVERY) + [*starts]
    for number in first:
        if tried.count(number) < first.count(number):
            return Proposal(number=number)
    numbers, ran = np.array(tried), np.array(values) > 0
    calm = find_undisturbed(numbers, values)
    logs = compute_logarithms(values)
    noise = estimate_noise(numbers[calm & ran], logs[calm & ran])
    at = space.features
    # What did not run says nothing of how good it would be; a chance says whether it would run.
    learnt = ran & calm if ran.any() else ~ran
    measured = np.unique(numbers[learnt])
    model = GaussianProcess(at[numbers[learnt]], compress_poor_values(logs[learnt]), noise=noise)
    highest = measured[np.argsort(-model.predict(at[measured]).mean, kind="stable")[:AROUND]]
    # How many settings differ from one of the best that were measured.
    differing = space.count_differences(highest).min(axis=1)
    looked_at = _select_candidates(differing, numbers)
    known, near = np.searchsorted(looked_at, measured), differing[looked_at] <= 1
    runs = estimate_chance_to_run(at[looked_at], at[numbers], ran)
    expected = model.predict(at[looked_at])
    gains = runs * compute_expected_improvement(expected, float(expected.mean[known].max()))
    most, many = float(gains.max()), len(space) > MANY
    if most < WORTH and len(tried) >= STOP_FROM:
        sentence = f"another measurement is expected to gain {most:.2%}: below {WORTH:.2%}"
        return Proposal(number=None, stopped=sentence)
    turn = len(tried) % AGAIN_EVERY == 0 and not many
    if len(tried) >= AGAIN_FROM * max(1.0, trials / TRIALS) and (
        turn or len(tried) >= trials - LAST
    ):
        return Proposal(number=int(measured[gains[known].argmax()]))
    good = learnt & (logs > logs.max() - GOOD)
    if many and len(tried) % FAR_EVERY and good.sum() > 1:
        model = GaussianProcess(at[numbers[good]], logs[good], noise=noise)
        top = float(model.predict(at[highest]).mean.max())
        gains = runs * compute_expected_improvement(model.predict(at[looked_at]), top) * near
    elif not many and len(tried) % LOCAL_EVERY == 0 and (gains * near).max() > 0:
        gains = gains * near
    if many:
        gains[known] = 0.0
    return Proposal(number=int(looked_at[gains.argmax()]))


def _select_candidates(differing: Ranks, tried: Ranks) -> Ranks:
    """Return the points to predict.

    They are all points of a small space; of a large space, the measured points, those near the
    best, and a random sample.
    """
    if len(differing) <= MANY:
        return np.arange(len(differing))
    chance = np.random.default_rng([10, len(tried)])
    sample = chance.choice(len(differing), size=BY_CHANCE, replace=False)
    return np.unique(np.concatenate([tried, np.flatnonzero(differing <= DIFFERING), sample]))


def compute_expected_improvement(prediction: Prediction, best: float) -> Array:
    """Return the augmented expected improvement over `best`, of each point.

    A point that is known as precisely as a measurement is not repeated: a repeat improves little,
    unless the point could still win.

    Source: Huang, Allen, Notz and Zeng, Global Optimization of Stochastic Black-Box Systems via
    Sequential Kriging Meta-Models, 2006.
    """
    z = (prediction.mean - best) / prediction.deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    reduction = 1 - prediction.noise / np.sqrt(prediction.deviation**2 + prediction.noise**2)
    improvement: Array = prediction.deviation * (z * _below(z) + density) * reduction
    return improvement


def estimate_chance_to_run(at: Array, tried: Array, ran: NDArray[np.bool_]) -> Array:
    """Return the probability that each point `at` runs at all.

    It is estimated from which of the `tried` points ran.
    """
    if ran.all() or not ran.any():
        return np.ones(len(at))
    expected = GaussianProcess(tried, ran.astype(float), noise=_RAN_NOISE).predict(at)
    chance: Array = _below((expected.mean - 0.5) / np.hypot(expected.deviation, _RAN_NOISE))
    return chance


Measure = Callable[[Point], Measurement]
Told = Callable[[Trial], None]


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    trials: tuple[Trial, ...]
    stopped: str
    choice: ChosenPoint | None
    """None where nothing ran."""


class Search:
    """A search; with a `file`, it resumes where it was interrupted.

    `wanted`: points to try first; the others are compared with the first of them. `confirm`: the
    minimum number of pairs of the choice and the first point that are measured at the end. If the
    noise needs more pairs, they take up to half of all trials. 0: no pairs.
    """

    def __init__(
        self,
        space: Space,
        wanted: Sequence[Point],
        *,
        seed: int = 0,
        confirm: int = 0,
        file: Path | None = None,
    ) -> None:
        self._space, self._confirm, self._file = space, confirm, file
        count = STARTS if len(space) <= MANY else STARTS_OF_MANY
        self._starts = select_starts(space, wanted, count=count, seed=seed)
        self._trials = [] if file is None else read_trials(file)

    def list_trials(self) -> tuple[Trial, ...]:
        """Return the complete trials, in order."""
        return tuple(self._trials)

    def run(
        self, measure: Measure, budget: Budget, told: Told = lambda trial: None
    ) -> SearchResult:
        """Search until the budget ends or no gain is expected.

        `told` is called with each trial after it is saved.
        """
        stopped, confirming = None, [each for each in self._trials if each.confirms]
        while stopped is None:
            pairs = self._plan_pairs(budget.count_fitting_trials(self.list_trials()))
            kept = budget.reserve_trials(2 * pairs, self.list_trials())
            stopped = kept.explain_end(self.list_trials())
            if stopped is None and confirming:
                stopped = "the choice of an earlier run was being confirmed; --new searches again"
            if stopped is None:
                measured = list_values(self._space, self._trials)
                tried, values = [one for one, _ in measured], [value for _, value in measured]
                # From the kept trials alone, so that a resumed search asks for the same point.
                proposal = propose(
                    self._space,
                    self._starts,
                    tried,
                    values,
                    kept.count_fitting_trials(self.list_trials()),
                )
                stopped = proposal.stopped
                if proposal.number is not None:
                    self._measure(self._space.build_point(proposal.number), measure, told)
        confirms = confirming[0].confirms if confirming else 2 * pairs
        for number in range(len(confirming), confirms):
            choice = self.find_choice()
            if choice is None or choice.point == choice.start or choice.confirmation.refuted:
                break
            if budget.explain_end(self.list_trials()):
                break
            # Counterbalanced, so that what slowly changes on the computer favours neither.
            point = choice.start if number % 4 in (1, 2) else choice.point
            self._measure(point, measure, told, confirms=confirms)
        return SearchResult(trials=self.list_trials(), stopped=stopped, choice=self.find_choice())

    def _plan_pairs(self, trials: int) -> int:
        """Return the number of pairs that confirm the choice, in at most half of the `trials`.

        It depends on the noise, which repeated points show.
        """
        measured = [
            (number, value) for number, value in list_values(self._space, self._trials) if value
        ]
        numbers, values = np.array(measured, float).reshape(-1, 2).T
        calm = find_undisturbed(numbers, values)
        noise = estimate_noise(numbers[calm], np.log(values[calm]))
        today = values[(numbers == self._starts[0]) & calm]
        # The best of many was lucky: by about two standard deviations.
        gain = math.log(values[calm].max() / today.mean()) - 2 * noise if len(today) else 0.0
        return plan_pairs(noise, trials, least=self._confirm, gain=gain) if self._confirm else 0

    def _measure(self, point: Point, measure: Measure, told: Told, *, confirms: int = 0) -> None:
        """Measure a point and save the trial.

        A point that was being measured when the process was killed is measured anew.
        """
        began = time.monotonic()
        measured = measure(dict(point))
        trial = Trial(
            number=len(self._trials),
            point=dict(point),
            measured=measured,
            seconds=time.monotonic() - began,
            confirms=confirms,
        )
        if self._file is not None:
            create_private_folder(self._file.parent)
            with open(self._file, "a", encoding="utf-8", opener=open_private) as file:
                file.write(json.dumps(dataclasses.asdict(trial)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        self._trials.append(trial)
        told(trial)

    def find_choice(self) -> ChosenPoint | None:
        return choose_point(self._space, self._starts[0], self.list_trials())


def read_trials(file: Path) -> list[Trial]:
    """Read the trials of an earlier run, and remove a line that a kill left incomplete.

    Otherwise the next line would continue the incomplete one, and both would be lost.
    """
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(file, len(whole))
    rows = [json.loads(line) for line in whole.splitlines()]
    return [Trial(**row | {"measured": Measurement(**row["measured"])}) for row in rows]
