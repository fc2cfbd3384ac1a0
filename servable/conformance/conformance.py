"""Sends the observed requests to targets, and counts how far the answers agree."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from servable.conformance.observed_cases import (
    Agreement,
    Case,
    ContainerSetup,
    ObservedAnswer,
    changed,
)
from servable.conformance.targets import ContainerTarget, Target, check_models


@dataclass
class GroupResult:
    """The counts of one group. `changed` cases differ on purpose and are not compared."""

    group: str
    counts: dict[Agreement, int] = field(default_factory=lambda: dict.fromkeys(Agreement, 0))
    changed: int = 0
    unasked: int = 0
    """Cases that cannot be sent to the target: InvokeEndpoint sends no GET."""
    differences: list["DifferentAnswer"] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        counts = {kind.value.replace(" ", "_"): number for kind, number in self.counts.items()}
        return {"group": self.group, **counts, "changed": self.changed, "unasked": self.unasked}


@dataclass(frozen=True)
class DifferentAnswer:
    """A case whose answer differs from the observed one. `str()` is one line."""

    case: Case
    answer: ObservedAnswer

    def __str__(self) -> str:
        seen, observed = map(_shown, (self.answer, self.case.answer))
        return f"{self.case.group}, {self.case.name!r}: {seen}; observed: {observed}"

    def as_json(self) -> dict[str, Any]:
        answers = {"answer": self.answer, "observed": self.case.answer}
        return {"group": self.case.group, "case": self.case.name} | {
            name: {
                "status": compared.status,
                "content_type": compared.content_type,
                "body": compared.body.decode("utf-8", "backslashreplace"),
            }
            for name, compared in answers.items()
        }


def asked(
    target: Target, container: ContainerSetup
) -> Iterator[tuple[Case, ObservedAnswer | None]]:
    """Send every case in its order. Raises `TargetError`."""
    if not container.is_multi_model:
        check_models(target)
    elif isinstance(target, ContainerTarget):
        target.unload_all()
    for case in container.cases:
        yield case, target.ask(case)


def counted(answers: Iterable[tuple[Case, ObservedAnswer | None]]) -> list[GroupResult]:
    """Return the counts by group, in the table's order."""
    otherwise: Mapping[str, Mapping[str, str]] = changed()
    results: dict[str, GroupResult] = {}
    for case, answer in answers:
        group = results.setdefault(case.group, GroupResult(case.group))
        if answer is None:
            group.unasked += 1
        elif case.name in otherwise.get(case.group, {}):
            group.changed += 1
        else:
            agreement = case.answer.agreement(answer)
            group.counts[agreement] += 1
            if agreement is Agreement.DIFFERENT:
                group.differences.append(DifferentAnswer(case, answer))
    return list(results.values())


def agreement_percent(groups: Iterable[GroupResult]) -> float:
    """Return the share of compared cases that agree, in percent; 0 if none was compared."""
    counts = Counter[Agreement]()
    for group in groups:
        counts.update(group.counts)
    compared = counts.total()
    return 100 * (compared - counts[Agreement.DIFFERENT]) / compared if compared else 0.0


def _shown(answer: ObservedAnswer) -> str:
    return f"{answer.status} {answer.content_type or ''} {answer.body[:160]!r}"
