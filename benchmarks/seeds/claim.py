"""One sentence of an article, and what was found here."""

from dataclasses import dataclass

from benchmarks.ratio import Ratio

SHOWS, NOT_SHOWN, OTHER_WAY, UNDECIDED = "shows", "did not show", "the other way round", "undecided"
# Why much does not show here.
CORES = "Callers, workers and the model share this machine's cores."


@dataclass(frozen=True)
class Counts:
    """Two whole numbers that do not scatter, so not a ratio."""

    ours: int
    theirs: int
    at_least: bool = False
    """Ours was not tried any further."""

    def __str__(self) -> str:
        return f"{'at least ' if self.at_least else ''}{self.ours} against {self.theirs}"


@dataclass(frozen=True)
class Claim:
    source: str
    """As S2."""
    article: str
    """What the article reports, with its numbers."""
    here: str
    """What was compared here."""
    found: Ratio | Counts
    """Above 1: the article's side is better here too."""
    at_least: float = 1.0
    at_most: float | None = None
    """The claim is that nothing gets worse: the ratio stays below this; `at_least` is not asked."""
    differs: str = ""
    """What is different here, for where it does not show."""

    @property
    def verdict(self) -> str:
        """By the interval's ends, so that what only seems so is undecided."""
        if isinstance(self.found, Counts):
            return SHOWS if self.found.ours > self.found.theirs else NOT_SHOWN
        low, high = self.found.low, self.found.high
        if self.at_most is not None:
            return SHOWS if high <= self.at_most else NOT_SHOWN if low > self.at_most else UNDECIDED
        if low >= self.at_least and low > 1:
            return SHOWS
        if high < 1:
            return OTHER_WAY
        return NOT_SHOWN if high < self.at_least or low <= 1 else UNDECIDED

    def row(self) -> str:
        cells = (self.source, self.article, self.here, str(self.found), self._wanted, self.verdict)
        return f"| {' | '.join(cells)} |"

    def missing(self) -> str:
        """A sentence for the list of what did not show."""
        end = f" {self.differs}" if self.differs else ""
        return f"- {self.source}, {self.here}: {self.found}, {self.verdict}.{end}"

    @property
    def _wanted(self) -> str:
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        if isinstance(self.found, Counts):
            return "more"
        return "above 1" if self.at_least == 1 else f"at least {self.at_least:.2f}"
