"""The search itself: asks for a point, measures it, until a budget or the expectation ends it."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage, InMemoryStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from model_packaging.private_folder import private_folder, touch_private
from servable.tune.search.next_point import STARTS, Proposal, propose
from servable.tune.search.recommended import ChosenPoint, choose
from servable.tune.search.space import Point, Space
from servable.tune.search.start import starts
from servable.tune.search.trial import Budget, Measurement, Trial

# The study of a storage of ours; a file holds one.
STUDY = "tune"

Measure = Callable[[Point], Measurement]


@dataclass(frozen=True, kw_only=True)
class Found:
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
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._space, self._confirm = space, confirm
        self._starts = starts(space, wanted, count=STARTS, seed=seed)
        self._distributions: dict[str, BaseDistribution] = {
            name: CategoricalDistribution(values) for name, values in space.grid.items()
        }
        self._study = optuna.create_study(
            storage=_storage(file), study_name=STUDY, direction="maximize", load_if_exists=True
        )

    def trials(self) -> tuple[Trial, ...]:
        """What is complete, in order."""
        return tuple(
            Trial(
                number=number,
                point=dict(trial.params),
                measured=Measurement(
                    value=trial.value or 0.0,
                    failure=trial.user_attrs.get("failure"),
                    about=trial.user_attrs.get("about", {}),
                ),
                seconds=float(trial.user_attrs.get("seconds", 0.0)),
                confirms=bool(trial.user_attrs.get("confirms")),
            )
            for number, trial in enumerate(self._done())
        )

    def run(
        self, measure: Measure, budget: Budget, told: Callable[[Trial], None] | None = None
    ) -> Found:
        """Until it ends. `told` hears of each trial once it is kept."""
        stopped, flat = None, False
        while stopped is None:
            kept = budget.without(2 * self._confirm, self.trials())
            stopped = kept.ended(self.trials())
            if stopped is None and self._confirmed():
                stopped = "the choice of an earlier run was being confirmed; --new searches again"
            if stopped is None:
                proposal = self._proposal(kept.fit(self.trials()))
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
        return Found(trials=self.trials(), stopped=stopped, choice=choice)

    def _proposal(self, trials: int) -> Proposal:
        """It follows from what is kept: a search that was killed asks for what it would have asked for."""
        known = [
            (number, trial.value)
            for trial in self._done()
            if (number := self._space.number(trial.params)) is not None and trial.value is not None
        ]
        tried, values = [number for number, _ in known], [value for _, value in known]
        return propose(self._space, self._starts, tried, values, trials)

    def _done(self) -> list[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))

    def _confirmed(self) -> int:
        return sum(1 for trial in self._done() if trial.user_attrs.get("confirms"))

    def _measure(
        self,
        point: Point,
        measure: Measure,
        told: Callable[[Trial], None] | None,
        *,
        confirms: bool = False,
    ) -> None:
        """Kept when it is done: what was under way when the process was killed is measured anew."""
        began = time.monotonic()
        measured = measure(dict(point))
        self._study.add_trial(
            create_trial(
                params=dict(point),
                distributions=self._distributions,
                value=measured.value,
                user_attrs={
                    "confirms": confirms,
                    "failure": measured.failure,
                    "about": dict(measured.about),
                    "seconds": time.monotonic() - began,
                },
            )
        )
        if told is not None:
            told(self.trials()[-1])

    def choice(self) -> ChosenPoint | None:
        return choose(self._space, self._starts[0], self.trials())


def _storage(file: Path | None) -> BaseStorage:
    """A database in a file: what was told survives a kill, half of it never does."""
    if file is None:
        return InMemoryStorage()
    private_folder(file.parent)
    touch_private(file)
    return RDBStorage(f"sqlite:///{file}")
