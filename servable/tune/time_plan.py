"""Plan of `servable tune`'s minutes: printed before they are spent, refused where they are too few."""

import math
from dataclasses import dataclass

from servable.load.load_target import Pace

# The two load curves around the trials take as long as so many of today's settings: a step of the
# second may have to be measured again.
CURVES = 2.5
# Loads of one trial, and of a curve up to a hundred users, refined around the knee.
TRIAL_STEPS, CURVE_STEPS = 3, 8
# Fewer compare today's settings with next to nothing: they and four rules of thumb.
LEAST_TRIALS = 5


def seconds_expected(steps: int, pace: Pace, start_seconds: float) -> float:
    """Return the seconds of a load curve before one was measured, from how long its steps last at least."""
    return start_seconds + steps * (pace.warm_up_seconds + pace.least_seconds)


@dataclass(frozen=True, kw_only=True)
class TimePlan:
    """`minutes` of everything; `confirm`: the least trials that are kept back to confirm the choice."""

    minutes: float
    curve_seconds: float
    """Seconds of one load curve."""
    trial_seconds: float
    confirm: int
    trials: int
    """At most, those that confirm included."""

    @property
    def trials_minutes(self) -> float:
        """Minutes that the load curves leave for the trials."""
        return max(0.0, self.minutes - CURVES * self.curve_seconds / 60)

    @property
    def fit(self) -> int:
        """Trials that fit, those that confirm included."""
        return min(self.trials, int(60 * self.trials_minutes / max(self.trial_seconds, 0.001)))

    @property
    def refusal(self) -> str | None:
        """Why no comparison fits, and how many minutes would; None where one does."""
        least = min(self.trials, LEAST_TRIALS + self.confirm)
        if self.fit >= least:
            return None
        needed = math.ceil((CURVES * self.curve_seconds + least * self.trial_seconds) / 60)
        return (
            f"{self.minutes:g} minutes hold no comparison: two load curves take about "
            f"{self.curve_seconds:.0f} s each, and {least} trials ({self.confirm} of them to confirm "
            f"the choice) about {self.trial_seconds:.0f} s each; give --minutes {needed} or more"
        )

    def __str__(self) -> str:
        seconds = min(60 * self.minutes, 2 * self.curve_seconds + self.fit * self.trial_seconds)
        return (
            f"about {seconds / 60:.1f} minutes, at most {self.minutes:g}: two load curves of about "
            f"{self.curve_seconds:.0f} s, and about {self.fit} trials of about "
            f"{self.trial_seconds:.0f} s, from {self.confirm} to half of them to confirm the choice"
        )
