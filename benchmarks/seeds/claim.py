"""One sentence of an article, and what was found here: shown, not shown, or the other way round."""

from dataclasses import dataclass

from benchmarks.ratio import Ratio


@dataclass(frozen=True)
class Claim:
    source: str
    """As S2."""
    article: str
    """What the article reports, with its numbers."""
    here: str
    """What was compared here."""
    found: Ratio
    """Above 1: the article's side is better here too."""
    near_one: bool = False
    """The claim is that nothing gets worse: a ratio whose interval reaches down to 1.05 holds it."""

    @property
    def verdict(self) -> str:
        if self.near_one:
            return "shows" if self.found.low <= 1.05 else "did not show"
        if not self.found.shows:
            return "did not show"
        return "shows" if self.found.median > 1 else "the other way round"

    def row(self) -> str:
        return f"| {self.source} | {self.article} | {self.here} | {self.found} | {self.verdict} |"
