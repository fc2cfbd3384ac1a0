"""The result of one check of `servable doctor`."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "problem", "open"]


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `state` "open": it could not be checked, or is no problem by itself."""

    name: str
    state: State
    said: str
    mend: str = ""


def judged(name: str, fine: bool, said: str, mend: str) -> CheckResult:
    """Return "ok", or a problem with its remedy."""
    return CheckResult(name, "ok", said) if fine else CheckResult(name, "problem", said, mend)
