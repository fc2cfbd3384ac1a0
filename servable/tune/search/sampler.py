"""Optuna's place for a search of one's own."""

from collections.abc import Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState

from servable.tune.search.budget import TRIALS
from servable.tune.search.next_point import Proposal, propose
from servable.tune.search.space import Point, Space
from servable.tune.search.sudden import Sudden


class ModelSampler(optuna.samplers.BaseSampler):
    """The next point follows from the trials that are complete and how many there may be.

    So a search that was killed and resumed asks for what it would have asked for.
    """

    def __init__(self, space: Space, starts: Sequence[int], *, noise: float) -> None:
        self._space, self._starts, self._noise = space, list(starts), noise
        self._sudden = Sudden(space, noise=noise)
        self._known: tuple[tuple[int, int], Proposal] | None = None
        self.trials = TRIALS
        """How many there may be, at most."""
        self.forced: Point | None = None
        """Asked for next, whatever is expected of it."""

    def proposal(self, study: optuna.Study) -> Proposal:
        done = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        if self._known is not None and self._known[0] == (len(done), self.trials):
            return self._known[1]
        tried, values = [], []
        for trial in done:
            number = self._space.number(trial.params)
            if number is not None and trial.value is not None:
                tried.append(number)
                values.append(trial.value)
        found = propose(
            self._space,
            self._starts,
            tried,
            values,
            self._noise,
            self.trials,
            sudden=self._sudden,
        )
        self._known = (len(done), self.trials), found
        return found

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return distributions(self._space)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if self.forced is not None:
            return dict(self.forced)
        number = self.proposal(study).number
        # Asked although nothing more is expected: the first one again.
        return self._space.point(self._starts[0] if number is None else number)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        raise KeyError(param_name)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    return {name: CategoricalDistribution(values) for name, values in space.grid.items()}
