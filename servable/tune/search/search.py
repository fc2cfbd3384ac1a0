"""The search itself: asks for a point, measures it, until a budget or the expectation ends it."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model_packaging.private_folder import private_folder, private_opener
from servable.tune.search.confirmation import pairs_planned
from servable.tune.search.next_point import STARTS, Proposal, propose
from servable.tune.search.recommended import ChosenPoint, choose, values_of
from servable.tune.search.space import Point, Space
from servable.tune.search.start import starts
from servable.tune.search.trial import Budget, Measurement, Trial, noise_of, undisturbed

Measure = Callable[[Point], Measurement]
Told = Callable[[Trial], None]


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    trials: tuple[Trial, ...]
    stopped: str
    choice: ChosenPoint | None
    """None where nothing ran."""


class Search:
    """One search; with a `file` it goes on where it was interrupted.

    `wanted`: tried first, the first of them is what the others are compared with.
    `confirm`: the least pairs of the choice and the first one that are measured at the end; where the
    noise needs more of them, they take up to half of all trials. 0: none.
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
        self._starts = starts(space, wanted, count=STARTS, seed=seed)
        self._trials = [] if file is None else kept_trials(file)

    def trials(self) -> tuple[Trial, ...]:
        """Return the complete trials, in order."""
        return tuple(self._trials)

    def run(
        self, measure: Measure, budget: Budget, told: Told = lambda trial: None
    ) -> SearchResult:
        """Until it ends. `told` hears of each trial once it is kept."""
        stopped, confirming = None, [each for each in self._trials if each.confirms]
        while stopped is None:
            pairs = self._pairs(budget.fit(self.trials()))
            kept = budget.without(2 * pairs, self.trials())
            stopped = kept.ended(self.trials())
            if stopped is None and confirming:
                stopped = "the choice of an earlier run was being confirmed; --new searches again"
            if stopped is None:
                proposal = self._proposal(kept.fit(self.trials()))
                stopped = proposal.stopped
                if proposal.number is not None:
                    self._measure(self._space.point(proposal.number), measure, told)
        confirms = confirming[0].confirms if confirming else 2 * pairs
        for number in range(len(confirming), confirms):
            choice = self.choice()
            if choice is None or choice.point == choice.start or choice.confirmation.refuted:
                break
            if budget.ended(self.trials()):
                break
            # Counterbalanced, so that what slowly changes on the computer favours neither.
            point = choice.start if number % 4 in (1, 2) else choice.point
            self._measure(point, measure, told, confirms=confirms)
        return SearchResult(trials=self.trials(), stopped=stopped, choice=self.choice())

    def _pairs(self, trials: int) -> int:
        """Pairs that confirm the choice, of at most `trials` in all: repeats say how noisy one is."""
        measured = [
            (number, value) for number, value in values_of(self._space, self._trials) if value
        ]
        numbers, values = np.array(measured, float).reshape(-1, 2).T
        calm = undisturbed(numbers, values)
        noise = noise_of(numbers[calm], np.log(values[calm]))
        return pairs_planned(noise, trials, least=self._confirm) if self._confirm else 0

    def _proposal(self, trials: int) -> Proposal:
        """Propose a point from the recorded trials alone, so that a resumed search asks for the same one."""
        measured = values_of(self._space, self._trials)
        tried, values = [number for number, _ in measured], [value for _, value in measured]
        return propose(self._space, self._starts, tried, values, trials)

    def _measure(self, point: Point, measure: Measure, told: Told, *, confirms: int = 0) -> None:
        """Kept when it is done: what was under way when the process was killed is measured anew."""
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
            private_folder(self._file.parent)
            with open(self._file, "a", encoding="utf-8", opener=private_opener) as file:
                file.write(json.dumps(dataclasses.asdict(trial)) + "\n")
                file.flush()
                os.fsync(file.fileno())
        self._trials.append(trial)
        told(trial)

    def choice(self) -> ChosenPoint | None:
        return choose(self._space, self._starts[0], self.trials())


def kept_trials(file: Path) -> list[Trial]:
    """Read the trials of an earlier run, and cut off a line that a kill left incomplete.

    The next line would otherwise continue the incomplete one, and both would be lost.
    """
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        os.truncate(file, len(whole))
    rows = [json.loads(line) for line in whole.splitlines()]
    return [Trial(**row | {"measured": Measurement(**row["measured"])}) for row in rows]
