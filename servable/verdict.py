"""The three verdicts in `--json`, the exit code of each (docs/reference/commands.md), and a gate's words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["holds", "does not hold", "cannot be told"]
EXIT_CODES: Mapping[Verdict, int] = {"holds": 0, "does not hold": 1, "cannot be told": 3}
Held = Literal["met", "NOT met", "cannot be told"]


@dataclass(frozen=True)
class GateVerdict:
    """What `--gate` found, and a sentence for each reason."""

    held: Held
    lines: Sequence[str] = ()

    @property
    def verdict(self) -> Verdict:
        """Return the verdict in the words that all commands share."""
        words: Mapping[Held, Verdict] = {"met": "holds", "NOT met": "does not hold"}
        return words.get(self.held, "cannot be told")

    def as_object(self) -> dict[str, Any]:
        """Convert the verdict to JSON-compatible data."""
        return {"held": self.held == "met", "verdict": self.held, "lines": list(self.lines)}
