"""Run the search: choose a point, measure it, until the budget ends or no gain is expected.

Rules of thumb come first. After that, one more measurement may find a better point, or improve the
estimate of those already measured. Every gain is a difference of logarithms, and so approximately
relative.
"""

import dataclasses
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np

from model_packaging.beside import create_private_folder, open_private
from servable.tune.search.gaussian_process import Array, GaussianProcess, Prediction
from servable.tune.search.recommended import ChosenPoint, choose_point, list_values, plan_pair_count
from servable.tune.search.space import (
    AT_ONCE,
    BATCH_SIZE,
    OF_BATCHING,
    PROGRAMS,
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


def list_rules_of_thumb(space: Space, *, vcpus: int) -> list[Point]:
    """Return settings that others found to be good on an instance of this size.

    Sources: the retrieval model of S2 (many workers, a server for each four vCPUs, one thread
    each), https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/;
    if there is only one server, it takes a call for each vCPU at once, or the others idle;
    one server with all threads, TensorFlow's own default; more servers than that article used;
    batching in one server with all threads and half the workers, as AWS China's article on the
    container did for a ranking model. The queue is long where the workers can fill it.
    Afterwards, on each type in the same order, each rule's servers get the other rules' workers, which
    shows which of both were good.
    """
    sizes, queues = space.grid.get(BATCH_SIZE, (None,)), space.grid.get(OF_BATCHING[2], (None,))
    fourth, half = max(1, vcpus // 4), max(1, vcpus // 2)
    # As many servers as fit into memory.
    most = max(int(count or 1) for count in space.grid.get("tfs_processes", (vcpus,)))
    few, many = min(fourth, most), min(half, most)
    servers: list[tuple[int, int, int, bool, Value]] = [
        (few, 1 if few == fourth > 1 else vcpus // few, 1, True, sizes[0]),
        (1, vcpus, vcpus, True, sizes[0]),
        (many, vcpus // many, 1, False, sizes[0]),
        (1, vcpus, 1, True, sizes[-1]),
    ]
    workers = [(vcpus, "gevent", 1), (vcpus, "sync", 1), (2 * vcpus, "gthread", 2)]
    workers.append((half, "gthread", 8))
    points: list[Point] = []
    pairs = itertools.product(enumerate(servers), enumerate(workers))
    for (_, server), (_, worker) in sorted(pairs, key=lambda pair: pair[0][0] != pair[1][0]):
        processes, inter, intra, onednn, size = server
        count, kind, threads = worker
        point: dict[str, Value] = {
            "tfs_processes": processes,
            "inter_op_threads": inter,
            "intra_op_threads": intra,
            "omp_threads": 1,
            "onednn": onednn,
            "gunicorn_workers": count,
            WORKER_CLASS: kind,
            WORKER_THREADS: threads,
            BATCH_SIZE: size,
            OF_BATCHING[0]: 1000,
            OF_BATCHING[1]: max(1, vcpus // processes),
        }
        at_once = count * threads * AT_ONCE[kind]
        if at_once > processes * int(queues[0] or at_once):
            point[OF_BATCHING[2]] = queues[-1]
        points.append(point)
    return points


# The first points: today's settings and four rules of thumb. The model then selects so many of the other
# wanted points, before it proposes neighbors of the best.
STARTS, SELECTED = 5, 4
# A new point is a neighbor of one of so many best.
AROUND = 3
# The last measurements, but none before the first number, repeat a point that could still be the best:
# only a measured point is recommended.
AGAIN_FROM, LAST = 25, 3
# A point that measured worse than the best by more, as a logarithm, isn't repeated at the end.
CLOSE = 0.25
# Much less than a load test may gain on average, because that is the average of many small losses and a few
# large ones. With 0.001 the worst of the development seeds lost 11 %.
WORTH = 0.0003
STOP_FROM = 12
_below = np.vectorize(NormalDist().cdf, otypes=[float])
# Noise of "it ran" (1) and "it didn't" (0): few settings run only sometimes.
_RAN_NOISE = 0.1


def propose(
    space: Space,
    starts: Sequence[int],
    tried: Sequence[int],
    values: Sequence[float],
    trials: int = TRIALS,
) -> int | str:
    """Return the number of the next point to measure, or the reason to stop.

    `tried`: numbers of the measured points, with repeats; `values`: their values. `trials`: the
    maximum.
    """
    for number in starts[:STARTS]:
        if number not in tried:
            return number
    untried = [number for number in starts if number not in tried]
    numbers, ran, at = np.array(tried), np.array(values) > 0, space.features
    calm = find_undisturbed(numbers, values)
    logs = compute_logarithms(values)
    noise = estimate_noise(numbers[calm & ran], logs[calm & ran]).deviation
    # A failure says nothing about how good its neighbors are, only whether they would run.
    learnt = ran & calm if ran.any() else ~ran
    model = GaussianProcess(at[numbers[learnt]], compress_poor_values(logs[learnt]), noise=noise)
    chance = None
    if ran.any() and not ran.all():
        chance = GaussianProcess(at[numbers], ran.astype(float), noise=_RAN_NOISE)
    measured = np.unique(numbers[learnt])
    expected = model.predict(at[measured])
    top = float(expected.mean.max())

    def estimate_gains(points: Ranks) -> Array:
        gains = compute_expected_improvement(model.predict(at[points]), top)
        return gains * estimate_chance_to_run(chance.predict(at[points])) if chance else gains

    # A measurement that was probably disturbed is made again where the point may be good.
    known = numbers[learnt][~model.doubted]
    best = measured[np.argsort(-expected.mean, kind="stable")[:AROUND]]
    for turn in range(len(PROGRAMS)):
        # In turn: otherwise settings that hardly matter, and so lose little, would get most trials.
        program = PROGRAMS[(len(tried) + turn) % len(PROGRAMS)]
        near = [space.find_neighbors(int(number), program) for number in best]
        points = np.flatnonzero(np.any(near, axis=0))
        if untried and len(tried) < STARTS + SELECTED:
            points = np.array(untried)
        gains = np.where(np.isin(points, known), 0.0, estimate_gains(points))
        if gains.max() >= WORTH:
            break
    most = max(gains.max(), estimate_gains(measured).max())
    if most < WORTH and len(tried) >= STOP_FROM:
        return f"another measurement is expected to gain only {most:.2%}, below {WORTH:.2%}"
    if len(tried) >= max(AGAIN_FROM, trials - LAST):
        own = np.array([logs[learnt & (numbers == number)].mean() for number in measured])
        highest = expected.mean + expected.deviation
        return int(measured[np.where(own > own.max() - CLOSE, highest, -math.inf).argmax()])
    return int(points[gains.argmax()]) if gains.max() > 0 else int(best[0])


def compute_expected_improvement(prediction: Prediction, best: float) -> Array:
    """Return each point's augmented expected improvement over `best`.

    Repeating a point that is known as precisely as a measurement improves little.

    Source: Huang, Allen, Notz and Zeng, Global Optimization of Stochastic Black-Box Systems via
    Sequential Kriging Meta-Models, 2006.
    """
    z = (prediction.mean - best) / prediction.deviation
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    reduction = 1 - prediction.noise / np.sqrt(prediction.deviation**2 + prediction.noise**2)
    improvement: Array = prediction.deviation * (z * _below(z) + density) * reduction
    return improvement


def estimate_chance_to_run(expected: Prediction) -> Array:
    """Return the probability that each point runs. `expected`: of 1 for a point that ran, 0 for others."""
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
    minimum number of pairs of the choice and the first point at the end; 0: no pairs.
    """

    def __init__(
        self, space: Space, wanted: Sequence[Point], *, confirm: int = 0, file: Path | None = None
    ) -> None:
        self._space, self._confirm, self._file = space, confirm, file
        self._starts = [*dict.fromkeys(map(space.find_nearest, wanted))] or [0]
        self._trials = [] if file is None else restore_trials(file)

    def list_trials(self) -> tuple[Trial, ...]:
        """Return the complete trials, in order."""
        return tuple(self._trials)

    def run(
        self, measure: Measure, budget: Budget, told: Told = lambda trial: None
    ) -> SearchResult:
        """Search until the budget ends or no gain is expected. `told` gets each saved trial."""
        stopped, confirming = None, [each for each in self._trials if each.confirms]
        while stopped is None:
            done = self.list_trials()
            pairs = self._plan_pair_count(budget.count_fitting_trials(done))
            kept = budget.reserve_trials(2 * pairs, done)
            stopped = kept.explain_end(done)
            if stopped is None and confirming:
                stopped = "an earlier run was already confirming its choice; --new searches again"
            if stopped is None:
                # From the saved trials alone, so that a resumed search proposes the same point.
                measured = list_values(self._space, done)
                tried, values = [one for one, _ in measured], [value for _, value in measured]
                most = kept.count_fitting_trials(done)
                proposal = propose(self._space, self._starts, tried, values, most)
                if isinstance(proposal, str):
                    stopped = proposal
                else:
                    self._measure(self._space.build_point(proposal), measure, told)
        confirms = confirming[0].confirms if confirming else 2 * pairs
        for number in range(len(confirming), confirms):
            choice = self.find_choice()
            if choice is None or choice.point == choice.start or choice.confirmation.refuted:
                break
            if budget.explain_end(self.list_trials()):
                break
            # Counterbalanced, so that slow changes of the computer favor neither.
            point = choice.start if number % 4 in (1, 2) else choice.point
            self._measure(point, measure, told, confirms=confirms)
        return SearchResult(trials=self.list_trials(), stopped=stopped, choice=self.find_choice())

    def _plan_pair_count(self, trials: int) -> int:
        """Return the number of pairs that confirm the choice, from the noise and gain so far."""
        if not self._confirm:
            return 0
        measured = [each for each in list_values(self._space, self._trials) if each[1]]
        numbers, values = np.array(measured, float).reshape(-1, 2).T
        calm = find_undisturbed(numbers, values)
        noise = estimate_noise(numbers[calm], np.log(values[calm]))
        today = values[(numbers == self._starts[0]) & calm]
        # The best of many was lucky: by about two standard deviations.
        lucky = 2 * noise.deviation
        gain = math.log(values[calm].max() / today.mean()) - lucky if len(today) else 0.0
        return plan_pair_count(noise, trials, least=self._confirm, gain=gain)

    def _measure(self, point: Point, measure: Measure, told: Told, *, confirms: int = 0) -> None:
        """Measure a point and save the trial."""
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


def restore_trials(file: Path) -> list[Trial]:
    """Read the trials of an earlier run, and remove a line that a kill left incomplete."""
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(file, len(whole))
    rows = [json.loads(line) for line in whole.splitlines()]
    return [Trial(**row | {"measured": Measurement(**row["measured"])}) for row in rows]
