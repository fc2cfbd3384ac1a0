"""The search itself: asks for a point, measures it, until a budget or the expectation ends it."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from model_packaging.private_folder import private_folder, private_opener
from servable.tune.search.next_point import STARTS, propose
from servable.tune.search.recommended import ChosenPoint, choose, values_of
from servable.tune.search.space import Point, Space
from servable.tune.search.start import starts
from servable.tune.search.trial import Budget, Measurement, Trial

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
    `confirm`: so often the choice and the first one are measured again, in turn, at the end; where
    the first one is the choice, it and the best of the others.
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
        stopped, flat = None, False
        while stopped is None:
            kept = budget.without(2 * self._confirm, self.trials())
            stopped = kept.ended(self.trials())
            if stopped is None and self._confirmed():
                stopped = "the choice of an earlier run was being confirmed; --new searches again"
            if stopped is None:
                # From the recorded trials alone, so that a resumed search asks for the same point.
                measured = values_of(self._space, self._trials)
                tried, values = [number for number, _ in measured], [value for _, value in measured]
                trials = kept.fit(self.trials())
                proposal = propose(self._space, self._starts, tried, values, trials)
                stopped, flat = proposal.stopped, proposal.flat
                if proposal.number is not None:
                    self._measure(self._space.point(proposal.number), measure, told)
        # On a flat surface the highest was measured again already, and was no better.
        for number in range(self._confirmed(), 0 if flat else 2 * self._confirm):
            choice = self.choice()
            if choice is None or choice.compared is None or budget.ended(self.trials()):
                break
            point = choice.start if number % 2 else choice.compared
            self._measure(point, measure, told, confirms=True)
        choice = self.choice()
        if flat and choice is not None and choice.better:
            choice = dataclasses.replace(choice, confirmed=False)
        return SearchResult(trials=self.trials(), stopped=stopped, choice=choice)

    def _confirmed(self) -> int:
        return sum(trial.confirms for trial in self._trials)

    def _measure(
        self, point: Point, measure: Measure, told: Told, *, confirms: bool = False
    ) -> None:
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
