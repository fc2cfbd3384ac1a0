"""Findings: problems of an environment file, each with allowed values and a fix."""

import difflib
import enum
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    ACKNOWLEDGED = "acknowledged"
    """An error or a warning that the environment file accepts with a reason."""
    NOT_CHECKED = "not checked"
    """A rule that lacks an input. It never counts as passed."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One problem of an environment file.

    `str()` gives the message: the file, the key, the problem, the allowed values, and the fix.
    """

    rule: str
    """Id of the rule, which never changes; [acknowledge] entries name it."""
    subject: str = ""
    """Distinguishes several findings of one rule at one key, for example by file. [acknowledge] then
    names RULE:SUBJECT, so that it accepts only this finding."""
    severity: Severity
    file: str
    """Path relative to the project, or the command-line option that gave the value."""
    key: str
    """Dotted key inside the file; empty if the finding is about the whole file."""
    given: Any = None
    problem: str
    allowed: str = ""
    """Allowed values, unless the problem or the remedy says them."""
    remedy: str
    acknowledgeable: bool = False
    line: int | None = None
    """Line of the file that sets the key, or the table around it; None if it was not looked for."""
    variable: str = ""
    """Container environment variable that states the key in the file; empty if the file has the key."""
    reads: tuple[str, ...] = ()
    """Other keys that the finding depends on: it is not shown while one of them has a problem itself."""

    def __str__(self) -> str:
        line = f":{self.line}" if self.line else ""
        variable = f" ({self.variable})" if self.variable else ""
        key = f"{self.key}{variable}: " if self.key else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed else ""
        return f"{self.file}{line}: {key}{self.problem}{allowed}; {self.remedy}"

    @property
    def written_key(self) -> str:
        """Return the key as the file has it: the variable's key if the file states a variable."""
        table = self.key.partition(".container.")[0]
        return f"{table}.environment.{self.variable}" if self.variable else self.key

    @property
    def acknowledgement(self) -> str:
        """Return the key under [acknowledge] that accepts this finding."""
        return f"{self.rule}:{self.subject}" if self.subject else self.rule

    def as_json(self) -> dict[str, Any]:
        given = self.given
        try:
            json.dumps(given, allow_nan=False)
        except (TypeError, ValueError):
            given = str(given)  # nan, dates
        fields = asdict(self) | {"severity": self.severity.value, "given": given}
        del fields["reads"], fields["subject"]
        return fields


def build_file_error(
    file: str, key: str, problem: str, remedy: str, *, given: Any = None, allowed: str = ""
) -> Finding:
    """Build a finding about an environment file or an override that cannot be read."""
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


def find_nearest(name: str, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the one of `names` closest to `name`, or None if nothing is close."""
    return next(iter(difflib.get_close_matches(name, sorted(names), n=1, cutoff=cutoff)), None)


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Return the remedy for an unknown name, as the last part of a message."""
    close = find_nearest(name, names)
    return f"did you mean {close}?" if close else "use one of these"


def suggest_path(written: str, root: Path) -> str | None:
    """Return the remedy for a path that doesn't exist; None if it does, or nothing has nearly its name."""
    path = root / written
    if os.path.lexists(path):
        return None
    try:
        # With less in common, model would be taken for code.
        close = find_nearest(path.name, (file.name for file in path.parent.iterdir()), cutoff=0.75)
    except OSError:
        return None
    return close and f"did you mean {Path(written).with_name(close).as_posix()}?"
