"""One thing that is wrong, or will hurt, said so that it can be put right."""

import difflib
import enum
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    ACKNOWLEDGED = "acknowledged"
    """An error or a warning that the environment file accepts, with a reason."""
    NOT_CHECKED = "not checked"
    """A rule that lacks an input: never a pass."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`str()` is the line a person reads: file: key: what is wrong; what is allowed; what to do."""

    rule: str
    """Stable id; what an [acknowledge] entry names."""
    subject: str = ""
    """Where one key has several findings of a rule: what this one is about. [acknowledge] then
    names it too, as RULE:SUBJECT, so that it accepts no other."""
    severity: Severity
    file: str
    """Relative to the project; or the command-line option the value came from."""
    key: str
    """Dotted path inside the file; empty when the file itself is the matter."""
    given: Any = None
    problem: str
    allowed: str = ""
    remedy: str
    acknowledgeable: bool = False
    reads: tuple[str, ...] = ()
    """Other keys that it was concluded from: silent while one of them has a problem itself."""

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}: " if self.key else f"{self.file}: "
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{where}{self.problem}{allowed}; {self.remedy}"

    @property
    def acknowledgement(self) -> str:
        """The key under [acknowledge] that accepts it."""
        return f"{self.rule}:{self.subject}" if self.subject else self.rule

    def as_json(self) -> dict[str, Any]:
        said = asdict(self) | {"severity": self.severity.value, "given": _plain(self.given)}
        del said["reads"], said["subject"]
        return said


def file_error(
    file: str, key: str, problem: str, remedy: str, *, given: Any = None, allowed: str = ""
) -> Finding:
    """What keeps an environment file, or an override, from being read as one."""
    return Finding(
        rule="parameters",
        severity=Severity.ERROR,
        file=file,
        key=key,
        given=given,
        problem=problem,
        allowed=allowed,
        remedy=remedy,
    )


def _plain(value: Any) -> Any:
    """As JSON holds it; in words where JSON has none (nan, dates)."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return str(value)
    return value


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None when nothing is close."""
    found = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def meant(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name, as the end of a sentence."""
    close = nearest(name, known)
    return f"did you mean {close}?" if close else "use one of those"
