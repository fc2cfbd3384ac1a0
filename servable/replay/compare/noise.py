"""Noise: what two known-good versions of a model disagree in, and whether another one differs by more.

The first known-good target is what both others are compared with. If the judged one is as good, an answer of
it is off by more than a level as often as one of the second known-good target is: of the answers in which
one of the two alone is, each has half (McNemar's test, one-sided). Answers are counted and not rows, because
rows of one answer may differ together.
Sources: McNemar, Psychometrika 12 (1947); https://github.com/opendiffy/diffy for the third target
(2026-11-24).
"""

import math

import numpy as np

# In tolerances: a difference may be more frequent, or as frequent and larger. Labels and NaN are above all.
_LEVELS = 10.0 ** np.arange(9)
# One of 10,000 at each level: one of 10 outputs is refused by chance in at most one of 100 replays.
_DEVIATIONS = 3.72


class Noise:
    """`add` how far both targets are off in each answer; the rest is what follows."""

    def __init__(self) -> None:
        self.answers = 0
        self._judged_alone = np.zeros(len(_LEVELS), np.int64)
        self._known_alone = np.zeros(len(_LEVELS), np.int64)
        self._both = np.zeros(len(_LEVELS), np.int64)

    def add(self, judged: float, known_good: float) -> None:
        """Count an answer. Both are the largest difference in tolerances, infinite for labels and forms."""
        off, known = judged > _LEVELS, known_good > _LEVELS
        self.answers += 1
        self._judged_alone += off & ~known
        self._known_alone += known & ~off
        self._both += known & off

    @property
    def disagreeing(self) -> int:
        """Answers in which the known-good targets differ from each other."""
        return int(self._known_alone[0] + self._both[0])

    @property
    def exceeded(self) -> bool:
        """Whether the judged target differs more often, or by more, than chance and noise explain."""
        more, less = self._judged_alone, self._known_alone
        return bool((more - less - 1 >= _DEVIATIONS * np.sqrt(more + less)).any())

    @property
    def least_answers(self) -> int:
        """The least number of answers by which more would have to differ, to be told from this noise."""
        less = int(self._known_alone[0])
        # The root of more - less - 1 = deviations * sqrt(more + less).
        square = _DEVIATIONS**2
        return math.ceil(1 + square / 2 + math.sqrt(square * (2 * less + 1) + square**2 / 4))
