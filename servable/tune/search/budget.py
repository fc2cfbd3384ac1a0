"""How much may be measured."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from servable.tune.search.trial import Trial

# What the stages of the search were developed for.
TRIALS = 40


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Whichever ends first. A trial that would probably not end within it is not begun."""

    trials: int = TRIALS
    minutes: float | None = None
    usd: float | None = None

    def ended(self, trials: Sequence[Trial]) -> str | None:
        """Why no other trial is begun; None while one may be. Time is that of the trials."""
        if len(trials) >= self.trials:
            return f"{self.trials} trials are done"
        spent = sum(trial.seconds for trial in trials)
        next_one = max((trial.seconds for trial in trials[-5:]), default=0.0)
        if self.minutes is not None and spent + next_one > 60 * self.minutes:
            return f"{spent / 60:.1f} of {self.minutes:.3g} minutes are spent"
        costs = [trial.usd for trial in trials]
        if self.usd is not None and sum(costs) + max(costs[-5:], default=0.0) > self.usd:
            return f"the dollars are spent: {sum(costs):.2f} in trials"
        return None

    def without(self, count: int, trials: Sequence[Trial]) -> "Budget":
        """What is left for the others where `count` trials as long as the last ones are yet to come."""
        seconds = count * max((trial.seconds for trial in trials[-5:]), default=0.0)
        usd = count * max((trial.usd for trial in trials[-5:]), default=0.0)
        return dataclasses.replace(
            self,
            trials=self.trials - count,
            minutes=None if self.minutes is None else self.minutes - seconds / 60,
            usd=None if self.usd is None else self.usd - usd,
        )

    def seconds_left(self, trials: Sequence[Trial]) -> float | None:
        """An estimate from the trials so far; None before the first."""
        if not trials:
            return None
        spent = sum(trial.seconds for trial in trials)
        left = (self.trials - len(trials)) * spent / len(trials)
        if self.minutes is not None:
            left = min(left, 60 * self.minutes - spent)
        return max(0.0, left)
