"""The result of one check of `servable doctor`."""

from dataclasses import asdict, dataclass
from typing import Any, Literal

State = Literal["ok", "problem", "open"]


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The result of one check. `state` "open": it could not be checked, or is no problem by itself."""

    name: str
    state: State
    said: str
    mend: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def judged(name: str, fine: bool, said: str, mend: str) -> CheckResult:
    """Return "ok", or a problem with its remedy."""
    return CheckResult(
        name=name, state="ok" if fine else "problem", said=said, mend="" if fine else mend
    )
