"""Asks targets the observed table, and counts how far they agree with it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from servable.conformance.observed_cases import (
    Agreement,
    Case,
    ObservedAnswer,
    ObservedContainer,
    changed,
)
from servable.conformance.targets import ContainerTarget, Target, check_models


@dataclass
class GroupResult:
    """Counts of one group. `changed` cases are ours to answer otherwise, and count for nothing."""

    group: str
    counts: dict[Agreement, int] = field(default_factory=lambda: dict.fromkeys(Agreement, 0))
    changed: int = 0
    unasked: int = 0
    """Those that cannot reach the target: InvokeEndpoint sends no GET."""
    differences: list["CaseDifference"] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return sum(self.counts.values())

    @property
    def agreeing(self) -> int:
        return self.compared - self.counts[Agreement.DIFFERENT]

    def as_json(self) -> dict[str, Any]:
        counts = {kind.value.replace(" ", "_"): number for kind, number in self.counts.items()}
        return {"group": self.group, **counts, "changed": self.changed, "unasked": self.unasked}


@dataclass(frozen=True)
class CaseDifference:
    """A case whose answer is another one than the observed. `str()` is one line."""

    case: Case
    answer: ObservedAnswer

    def __str__(self) -> str:
        seen, observed = map(_shown, (self.answer, self.case.answer))
        return f"{self.case.group}, {self.case.name!r}: {seen}; observed: {observed}"

    def as_json(self) -> dict[str, Any]:
        answers = {"answer": self.answer, "observed": self.case.answer}
        return {"group": self.case.group, "case": self.case.name} | {
            name: {
                "status": one.status,
                "content_type": one.content_type,
                "body": one.body.decode("utf-8", "backslashreplace"),
            }
            for name, one in answers.items()
        }


def asked(
    target: Target, container: ObservedContainer
) -> Iterator[tuple[Case, ObservedAnswer | None]]:
    """Every case in its order. Raises `TargetError`."""
    if not container.is_multi_model:
        check_models(target)
    elif isinstance(target, ContainerTarget):
        target.unload_all()
    for case in container.cases:
        yield case, target.ask(case)


def counted(answers: Iterable[tuple[Case, ObservedAnswer | None]]) -> list[GroupResult]:
    """By group, in the table's order."""
    otherwise: Mapping[str, Mapping[str, str]] = changed()
    found: dict[str, GroupResult] = {}
    for case, answer in answers:
        group = found.setdefault(case.group, GroupResult(case.group))
        if answer is None:
            group.unasked += 1
        elif case.name in otherwise.get(case.group, {}):
            group.changed += 1
        else:
            agreement = case.answer.agreement(answer)
            group.counts[agreement] += 1
            if agreement is Agreement.DIFFERENT:
                group.differences.append(CaseDifference(case, answer))
    return list(found.values())


def agreement_percent(groups: Iterable[GroupResult]) -> float:
    """Of all compared cases; 0 where none was."""
    groups = list(groups)
    compared = sum(group.compared for group in groups)
    return 100 * sum(group.agreeing for group in groups) / compared if compared else 0.0


def _shown(answer: ObservedAnswer) -> str:
    return f"{answer.status} {answer.content_type or ''} {answer.body[:160]!r}"
