"""What a comparison counts of one output."""

from collections import Counter
from dataclasses import dataclass, field
from typing import TypeVar

from servable.answer_differences import ArrayDifference
from servable.replay.compare.columns import ColumnSizes
from servable.replay.compare.noise import Noise
from servable.replay.compare.sketch import Sketch

_Counted = TypeVar("_Counted")
_MOST_EXAMPLES = 20


@dataclass(kw_only=True)
class OutputStatistics:
    """Differences of one output so far. Counts are of rows where nothing else is stated."""

    name: str
    rows: int = 0
    differing: int = 0
    requests: int = 0
    """Answers that had the output on either side."""
    differing_requests: int = 0
    absolute: Sketch = field(default_factory=Sketch)
    relative: Sketch = field(default_factory=Sketch)
    nan: int = 0
    infinite: int = 0
    added: int = 0
    """Answers with the output although none was expected."""
    problems: Counter[str] = field(default_factory=Counter)
    """Reason against a comparison by value, as MISSING or a changed type or shape -> answers."""
    labels: int = 0
    """Changed labels."""
    examples: Counter[tuple[str, str]] = field(default_factory=Counter)
    top: Counter[int] = field(default_factory=Counter)
    """k -> rows whose k highest scores are others."""
    shifts: Counter[int] = field(default_factory=Counter)
    """Number by which most labels of an answer, or its scores' places, moved -> answers."""
    other_names: Counter[str] = field(default_factory=Counter)
    """Name under which the expected values came -> answers."""
    tolerance: float | None = None
    """Relative tolerance; None: compared exactly."""
    columns: ColumnSizes = field(default_factory=ColumnSizes)
    noise: Noise = field(default_factory=Noise)
    """Differences of the judged target beside those of the second known-good one, if there is one."""

    @property
    def share(self) -> float:
        return self.differing / self.rows if self.rows else float(bool(self.added))

    @property
    def swapped_with(self) -> str | None:
        """The name under which most of the expected values came."""
        return _most(self.other_names, self.differing_requests)

    @property
    def shift(self) -> int | None:
        """The number by which labels, or places of scores, moved in most answers that differ."""
        return _most(self.shifts, self.differing_requests)

    def add(self, difference: ArrayDifference, rows: int) -> None:
        self.rows += rows
        self.requests += 1
        self.absolute.add(difference.absolute)
        self.relative.add(difference.relative)
        if difference.equal:
            return
        self.differing += int(difference.differing.sum())
        self.differing_requests += 1
        self.nan += difference.nan_rows
        self.infinite += difference.infinite_rows
        self.labels += difference.labels
        if difference.problem:
            # Shapes may be endlessly many.
            known = len(self.problems) < _MOST_EXAMPLES or difference.problem in self.problems
            self.problems[difference.problem if known else "other shapes"] += 1
        self.top.update(difference.top)
        if difference.shift is not None and (
            len(self.shifts) < 100 or difference.shift in self.shifts
        ):
            self.shifts[difference.shift] += 1
        for example in difference.examples:
            if len(self.examples) < _MOST_EXAMPLES or example in self.examples:
                self.examples[example] += 1


def _most(counts: Counter[_Counted], of: int) -> _Counted | None:
    """Return the value that at least three quarters of `of` share; None: there is none."""
    return next((value for value, count in counts.most_common(1) if count >= 0.75 * of), None)
