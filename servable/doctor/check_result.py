"""The result of one check of `servable doctor`."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "problem", "open", "unknown"]


@dataclass(frozen=True)
class CheckResult:
    """The result of one check. `state` "open": no problem by itself; "unknown": AWS did not say."""

    name: str
    state: State
    said: str
    mend: str = ""


def judged(name: str, fine: bool, said: str, mend: str) -> CheckResult:
    """Return "ok", or a problem with its remedy."""
    return CheckResult(name, "ok", said) if fine else CheckResult(name, "problem", said, mend)
