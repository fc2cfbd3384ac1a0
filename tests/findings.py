"""The fields of a finding that tests compare."""

from collections.abc import Iterable
from typing import NamedTuple

from infra.parameters.finding import Finding


class Message(NamedTuple):
    """What a finding says: without its file, and without the frame that str() puts around the rest."""

    key: str
    problem: str
    allowed: str
    remedy: str


def message(finding: Finding) -> Message:
    return Message(finding.key, finding.problem, finding.allowed, finding.remedy)


def messages(findings: Iterable[Finding]) -> list[Message]:
    return [message(finding) for finding in findings]
