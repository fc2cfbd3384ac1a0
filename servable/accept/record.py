"""What an acceptance run saw: outcomes, facts, events and calls, written to a file after each step."""

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from model_packaging.beside import write_beside
from servable.acceptance_report import FORMAT
from servable.verdict import Verdict

_ACCOUNT = re.compile(r"(?<![0-9])[0-9]{12}(?![0-9])")
# Access keys of users and sessions, signatures and tokens in URLs, the user or role that calls.
_SECRETS = (
    (re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b"), "KEY"),
    (re.compile(r"(X-Amz-(?:Signature|Credential|Security-Token)=)[^&\s\"']+"), r"\1SECRET"),
    (
        re.compile(r"(arn:aws[a-z-]*:(?:iam|sts)::[^:]*:(?:user|assumed-role))/[^\s\"',]+"),
        r"\1/CALLER",
    ),
    (re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+\.[A-Za-z0-9.-]+"), "ADDRESS"),
)


@dataclass(kw_only=True)
class StepRecord:
    """One step: what it proves, how it ended, and what was seen in it."""

    name: str
    proves: str
    outcome: Verdict
    reason: str = ""
    minutes: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    """Dotted name to a JSON value. A name that ends in _minutes or _seconds is a duration."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """In the order in which AWS told of them; `minute` is since the step began."""


@dataclass(kw_only=True)
class AcceptReport:
    """A run as far as it got."""

    servable: str
    aws: str
    """"AWS" or "local AWS"."""
    region: str
    began: str
    instance_type: str | None
    steps: list[StepRecord] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    """"service:Operation" to how often this process called it; what the CDK CLI calls is not in it."""
    ended: str | None = None
    """Why it ended before its last step; None: it did not."""
    usd_at_most: float = 0.0
    left: list[str] = field(default_factory=list)
    """What could not be deleted."""
    kept: list[str] = field(default_factory=list)
    """What AWS itself keeps, each with its price."""
    format: int = FORMAT

    @property
    def verdict(self) -> Verdict:
        outcomes = {step.outcome for step in self.steps}
        if self.left or "does not hold" in outcomes:
            return "does not hold"
        return "holds" if outcomes == {"holds"} and self.ended is None else "cannot be told"

    def as_json(self, secrets: Iterable[str] = ()) -> dict[str, Any]:
        """The report without account ids, keys and names of callers. `secrets`: further texts."""
        whole = {"verdict": self.verdict, **asdict(self), "calls": dict(sorted(self.calls.items()))}
        parsed: dict[str, Any] = redacted(whole, tuple(filter(None, secrets)))
        return parsed

    def write(self, file: Path, secrets: Iterable[str] = ()) -> None:
        """Write the report whole, or not at all. Raises OSError."""
        text = json.dumps(self.as_json(secrets), indent=1, default=str)
        write_beside(file, f"{text}\n".encode())


def redacted(value: Any, secrets: tuple[str, ...] = ()) -> Any:
    """The value with ACCOUNT in the place of account ids, and no key, signature, caller or address."""
    if isinstance(value, dict):
        return {redacted(str(key), secrets): redacted(item, secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [redacted(item, secrets) for item in value]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, "SECRET")
    for pattern, word in _SECRETS:
        value = pattern.sub(word, value)
    return _ACCOUNT.sub("ACCOUNT", value)
