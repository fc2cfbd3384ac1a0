"""One thing that was looked at."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "problem", "open"]


@dataclass(frozen=True, kw_only=True)
class Look:
    """`open`: it could not be asked."""

    name: str
    state: State
    said: str
    mend: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judged(name: str, fine: bool, said: str, mend: str) -> Look:
    """ok, or a problem with how to mend it."""
    return Look(name=name, state="ok" if fine else "problem", said=said, mend="" if fine else mend)
