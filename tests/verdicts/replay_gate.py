"""Share of right verdicts of `servable replay --gate` on answers with a planted regression, and without one.

A classifier answers; the version that is judged computes in another order, as other threads do. A regression
is planted in the share of rows that the gate has to find: in exactly so many, or in each row by chance.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infra.parameters.replay import Replay
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import check_limits, compute_least_rows
from servable_tensors.codecs import JSON, PROTOBUF
from tests.servable.replay import pairs
from tests.servable.replay.pairs import CLASS_NAMES, KERNEL, Answer, model

ANSWERS = 30
Rows = NDArray[np.bool_]


def shift_scores(answer: Answer, rows: Rows) -> Answer:
    """Multiply the scores by 1.01."""
    factors = np.where(rows[:, None], 1.01, 1.0).astype(np.float32)
    return {**answer, "scores": factors * answer["scores"]}


def change_label(answer: Answer, rows: Rows) -> Answer:
    """Name the next class."""
    best = np.where(rows, (answer["best"] + 1) % len(CLASS_NAMES), answer["best"])
    return {**answer, "best": best, "name": CLASS_NAMES[best]}


def swap_scores(answer: Answer, rows: Rows) -> Answer:
    """Reverse the order of the classes."""
    scores = np.where(rows[:, None], answer["scores"][:, ::-1], answer["scores"])
    return {**answer, "scores": scores}


def write_nan(answer: Answer, rows: Rows) -> Answer:
    """Make one logit NaN."""
    logits = answer["logits"].copy()
    logits[rows, 0] = np.nan
    return {**answer, "logits": logits}


def shift_offset(answer: Answer, rows: Rows) -> Answer:
    """Shift the regression output by five tolerances."""
    step = 5e-5 * max(1.0, float(np.abs(answer["offset"]).max()))
    return {**answer, "offset": (answer["offset"] + step * rows).astype(np.float32)}


Harm = Callable[[Answer, Rows], Answer]
HARMS: tuple[Harm, ...] = (shift_scores, change_label, swap_scores, write_nan, shift_offset)


@dataclass(frozen=True)
class ReplayCase:
    """A planted change. `rows`: those that are replayed, as a multiple of those that the gate wants."""

    name: str
    passes: bool | None
    """Whether the gate should pass; None where too little is replayed to tell."""
    share: float = 0.01
    rows: float = 1.0
    exactly: bool = True


CASES = (
    ReplayCase("no change", True),
    ReplayCase("no change, half of the rows", None, rows=0.5),
    ReplayCase("in 1 % of 300 rows", False),
    ReplayCase("in each of 300 rows by a chance of 1 %", False, exactly=False),
    ReplayCase("in 0.1 % of 3,000 rows", False, 0.001),
    ReplayCase("in each of 300 rows by a chance of 2 %", False, 0.02, rows=2.0, exactly=False),
)


def run(case: ReplayCase, number: int, seed: int) -> str:
    """Return the verdict on one replay."""
    chance = np.random.default_rng([seed, number, CASES.index(case)])
    limits = Replay(detectable_share=case.share)
    size = round(compute_least_rows(limits) * case.rows) // ANSWERS
    count, share = size * ANSWERS, case.share if case.passes is False else 0.0
    hit = chance.random(count) < share
    if case.exactly:
        hit = chance.permutation(count) < round(share * count)
    comparison = Comparison(limits)
    harm, form = HARMS[number % len(HARMS)], (JSON, PROTOBUF)[number % 2]
    for at in range(ANSWERS):
        inputs, order = chance.normal(size=(size, 8)).astype(np.float32), chance.permutation(8)
        after = harm(model(inputs[:, order], KERNEL[order]), hit[at * size : (at + 1) * size])
        written = (pairs.written(side, form) for side in (model(inputs), after))
        comparison.add(pairs.pair_of(at, *(pairs.recorded(side, form) for side in written)))
    comparison.finish()
    return check_limits(comparison, limits, ANSWERS).held


def run_trials(seed: int, count: int) -> Iterator[tuple[str, bool | None, list[str]]]:
    """Run the gate `count` times in each case, and five times as often without a change."""
    with ProcessPoolExecutor(2) as pool:
        for case in CASES:
            trials = 5 * count if case.passes else count
            verdicts = pool.map(run, [case] * trials, range(trials), [seed] * trials)
            yield case.name, case.passes, [*verdicts]
