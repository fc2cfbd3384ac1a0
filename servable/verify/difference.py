"""What verifying finds: differences, and what is only said."""

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One thing that is not as it was deployed."""

    kind: str
    """A word of its own for each; docs/operating.md lists them."""
    resource: str
    """What differs, by the name that AWS knows it by."""
    key: str = ""
    """The property that differs."""
    wanted: object = None
    found: object = None
    remedy: str

    def __str__(self) -> str:
        what = f"{self.resource}: {self.key}" if self.key else self.resource
        if self.wanted is None and self.found is None:
            said = self.kind
        else:
            said = f"{self.kind}: {_short(self.found)}, deployed {_short(self.wanted)}"
        return f"{what}: {said}; {self.remedy}"


@dataclass(kw_only=True)
class Report:
    """Everything about one environment."""

    environment: str
    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What could not be looked at, and what is good to know."""
    measured: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"ok": not self.differences, **asdict(self)}


def _short(value: object, most: int = 160) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
