"""Share of right verdicts of `servable replay --gate` on answers with a planted regression, and without one.

A classifier answers; the version that is judged computes in another order, as other threads do. A regression
is planted in the share of rows that the gate is asked to find: in exactly so many, or in each by chance. So
many rows are replayed as the gate wants for that share. Noise is a dropout that is left on.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infra.parameters.replay import Replay
from servable.replay.answers import AnswerPair
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import judged, least_rows
from servable.replay.skipped import ReadLines
from servable_tensors.codecs import JSON, PROTOBUF
from tests.servable.replay.pairs import (
    CLASS_NAMES,
    KERNEL,
    Answer,
    model,
    pair_of,
    recorded,
    written,
)

PLANTED, UNCHANGED, NOISY = 40, 200, 20
ANSWERS, NOISY_ANSWERS = 30, 60
NOISE = 0.002
Chance = np.random.Generator
Rows = NDArray[np.bool_]
Inputs = NDArray[np.float32]


def off_by_a_percent(answer: Answer, rows: Rows) -> Answer:
    scores = answer["scores"].copy()
    scores[rows] *= np.float32(1.01)
    return {**answer, "scores": scores}


def other_label(answer: Answer, rows: Rows) -> Answer:
    best = np.where(rows, (answer["best"] + 1) % len(CLASS_NAMES), answer["best"])
    return {**answer, "best": best, "name": CLASS_NAMES[best]}


def swapped_scores(answer: Answer, rows: Rows) -> Answer:
    scores = answer["scores"].copy()
    scores[rows] = scores[rows][:, ::-1]
    return {**answer, "scores": scores}


def not_a_number(answer: Answer, rows: Rows) -> Answer:
    logits = answer["logits"].copy()
    logits[rows, 0] = np.nan
    return {**answer, "logits": logits}


def a_bit_more(answer: Answer, rows: Rows) -> Answer:
    """A regression output that is off by five tolerances."""
    offset = answer["offset"].copy()
    offset[rows] += np.float32(5e-5 * max(1.0, float(np.abs(offset).max())))
    return {**answer, "offset": offset}


HARMS = (off_by_a_percent, other_label, swapped_scores, not_a_number, a_bit_more)


@dataclass(frozen=True, kw_only=True)
class ReplayCase:
    name: str
    holds: bool | None
    """Whether nothing was planted. None: too little is replayed to tell."""
    trials: int
    share: float = 0.01
    """A change that is planted, and the rows in which the gate has to find it."""
    rows_share: float = 1.0
    """Share of the rows that the gate wants which are replayed."""
    exactly: bool = True
    noise: float = 0.0
    harm: float = 0.0
    """With noise: the share of answers whose label is planted as another."""


CASES = (
    ReplayCase(name="nothing", holds=True, trials=UNCHANGED),
    ReplayCase(name="nothing, half of the rows", holds=None, trials=PLANTED, rows_share=0.5),
    ReplayCase(name="in 1 % of 300 rows", holds=False, trials=PLANTED),
    ReplayCase(name="in each of 300 rows by a chance of 1 %", holds=False, trials=PLANTED, exactly=False),
    ReplayCase(name="in 0.1 % of 3,000 rows", holds=False, trials=PLANTED, share=0.001),
    ReplayCase(name="in each of 300 rows by a chance of 2 %", holds=False, trials=PLANTED, exactly=False,
               share=0.02, rows_share=2.0),
    ReplayCase(name="nothing, noise, two known-good targets", holds=True, trials=NOISY, noise=NOISE),
    ReplayCase(name="another label in half of 60 answers, noise, two known-good targets", holds=False,
               trials=NOISY, noise=NOISE, harm=0.5),
    ReplayCase(name="three times the noise, two known-good targets", holds=False, trials=NOISY, noise=NOISE,
               harm=-1.0),
)  # fmt: skip


def run(case: ReplayCase, number: int, chance: Chance) -> str:
    """Return the verdict on one replay."""
    limits = Replay(detectable_share=case.share)
    rows = round(least_rows(limits) * case.rows_share)
    several = NOISY_ANSWERS if case.noise else ANSWERS
    size = rows // several
    share = 0.0 if case.holds is not False or case.noise else case.share
    hit = np.zeros(rows, bool)
    if case.exactly:
        hit[chance.choice(rows, round(share * rows), replace=False)] = True
    else:
        hit = chance.random(rows) < share
    comparison = Comparison(limits)
    harm, form = HARMS[number % len(HARMS)], (JSON, PROTOBUF)[number % 2]
    for at in range(several):
        inputs = chance.normal(size=(size, 8)).astype(np.float32)
        hits = hit[at * size : (at + 1) * size]
        if case.noise:
            pair = _noisy(at, case, inputs, form, chance)
        else:
            pair = _planted(at, inputs, partial(harm, rows=hits), form, chance)
        comparison.add(pair)
    comparison.finish()
    lines = ReadLines(read=several)
    return judged(comparison, limits, lines, side_by_side=bool(case.noise)).held


def _planted(
    at: int, inputs: Inputs, harm: Callable[[Answer], Answer], form: str, chance: Chance
) -> AnswerPair:
    order = chance.permutation(8)
    sides = model(inputs), harm(model(inputs[:, order], KERNEL[order]))
    return pair_of(at, *(recorded(written(side, form), form) for side in sides))


def _noisy(at: int, case: ReplayCase, inputs: Inputs, form: str, chance: Chance) -> AnswerPair:
    def version(noise: float, wrong: bool = False) -> Any:
        answer = dict(model(inputs))
        for name in ("scores", "logits", "offset"):
            shape = answer[name].shape
            answer[name] = answer[name] + chance.normal(0, noise, shape).astype(np.float32)
        every = np.ones(len(inputs), bool)
        return recorded(written(other_label(answer, every) if wrong else answer, form), form)

    judged_noise = case.noise * (3 if case.harm < 0 else 1)
    new = version(judged_noise, wrong=bool(chance.random() < case.harm))
    pair = pair_of(at, None, new)
    return dataclasses.replace(pair, other=version(case.noise), second=version(case.noise))


def trials(seed: int) -> list[dict[str, Any]]:
    """Run the gate in each case. A row counts each verdict."""
    with ProcessPoolExecutor(2) as pool:
        return [*pool.map(_row, ((seed, at, case) for at, case in enumerate(CASES)))]


def _row(job: tuple[int, int, ReplayCase]) -> dict[str, Any]:
    seed, at, case = job
    chance = np.random.default_rng([seed, at])
    held = Counter(run(case, number, chance) for number in range(case.trials))
    verdicts = {each: held[each] for each in ("met", "NOT met", "cannot be told")}
    return {"case": case.name, "holds": case.holds, "trials": case.trials, **verdicts}
