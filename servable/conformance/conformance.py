"""Sends the observed requests to targets, and counts how far the answers agree."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from servable.conformance.contract import failures
from servable.conformance.observed_cases import (
    NO_ANSWER,
    Agreement,
    Case,
    ContainerSetup,
    ObservedAnswer,
    changed,
    excuses,
)
from servable.conformance.targets import ContainerTarget, Target, missing, target_at
from servable.verdict import Verdict

Reasons = Mapping[str, Mapping[str, str]]
"""Group -> case -> why its answer may differ: the form of observed/changed.toml."""
# The reason in changed.toml by which an error is compared but for its message.
_WORDS = "the handler's message has other words; status and type are the same"
_MOST_UNANSWERED = 3


@dataclass
class GroupResult:
    """The counts of one group. Answers of `excused` cases may differ, by a list with reasons."""

    group: str
    counts: dict[Agreement, int] = field(default_factory=lambda: dict.fromkeys(Agreement, 0))
    excused: int = 0
    unasked: int = 0
    """Cases that cannot be sent (InvokeEndpoint sends no GET), or to nobody who answers."""
    differences: list["DifferentAnswer"] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        counts = {kind.value.replace(" ", "_"): number for kind, number in self.counts.items()}
        return {"group": self.group, **counts, "excused": self.excused, "unasked": self.unasked}


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
    """Send every case in its order, until several in a row get no answer. Raises `TargetError`."""
    if container.is_multi_model and isinstance(target, ContainerTarget):
        target.unload_all()
    unanswered = 0
    for case in container.cases:
        answer = target.ask(case) if unanswered < _MOST_UNANSWERED else None
        if answer is not None:
            unanswered = unanswered + 1 if answer.status == NO_ANSWER else 0
        yield case, answer


def counted(
    answers: Iterable[tuple[Case, ObservedAnswer | None]],
    *,
    is_local: bool = False,
    more_reasons: Reasons = MappingProxyType({}),
) -> list[GroupResult]:
    """Return the counts by group, in the table's order.

    `is_local`: whether the local container answered. `more_reasons`: differences that the caller accepts.
    """
    reasons, accepted = [changed(), more_reasons], excuses()
    results: dict[str, GroupResult] = {}
    for case, answer in answers:
        group = results.setdefault(case.group, GroupResult(case.group))
        if answer is None:
            group.unasked += 1
            continue
        agreement = case.answer.agreement(answer)
        reason = next(
            (why for each in reasons if (why := each.get(case.group, {}).get(case.name))), ""
        )
        if reason == _WORDS and agreement is Agreement.DIFFERENT:
            reason = ""
        if reason:
            group.excused += 1
            continue
        if not accepted.accept(case, agreement, is_local=is_local):
            agreement = Agreement.DIFFERENT
        group.counts[agreement] += 1
        if agreement is Agreement.DIFFERENT:
            group.differences.append(DifferentAnswer(case, answer))
    return list(results.values())


def agreement_percent(groups: Iterable[GroupResult]) -> float | None:
    """Return the share of compared cases that agree, in percent; None if none was compared."""
    counts = Counter[Agreement]()
    for group in groups:
        counts.update(group.counts)
    compared = counts.total()
    return 100 * (compared - counts[Agreement.DIFFERENT]) / compared if compared else None


@dataclass
class ConformanceReport:
    """The result for the containers that were asked, each under its name."""

    tensorflow: str
    unasked: list[str]
    targets: dict[str, Target] = field(default_factory=dict)
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Container -> what it lacks; it is not asked then."""
    groups: list[GroupResult] = field(default_factory=list)
    contract: dict[str, dict[str, str | None]] = field(default_factory=dict)

    @property
    def differences(self) -> list[DifferentAnswer]:
        return [difference for group in self.groups for difference in group.differences]

    @property
    def is_local(self) -> bool:
        return all(target.is_local for target in self.targets.values())

    @property
    def verdict(self) -> Verdict:
        broken = any(seen for checks in self.contract.values() for seen in checks.values())
        if self.differences or broken:
            return "does not hold"
        complete = not self.missing and agreement_percent(self.groups) is not None
        return "holds" if complete else "cannot be told"

    def as_json(self) -> dict[str, Any]:
        percent = agreement_percent(self.groups)
        return {
            "tensorflow": self.tensorflow,
            "verdict": self.verdict,
            "agreement_percent": None if percent is None else round(percent, 2),
            "local_container_only": self.is_local,
            "targets": {name: [target.url, target.server] for name, target in self.targets.items()},
            "missing": self.missing,
            "unasked": self.unasked,
            "groups": [group.as_json() for group in self.groups],
            "differences": [difference.as_json() for difference in self.differences],
            "contract": self.contract,
        }


def report_of(
    setups: Iterable[ContainerSetup],
    addresses: Mapping[str, str],
    *,
    models_path: str,
    component: str | None = None,
    wait_seconds: float,
    reasons: Reasons,
) -> ConformanceReport:
    """Look at every container, then ask those that serve what the table needs. Raises `TargetError`."""
    setups = list(setups)
    unasked = [setup.name for setup in setups if setup.name not in addresses]
    report = ConformanceReport(setups[0].image, unasked)
    chosen = [setup for setup in setups if setup.name in addresses]
    for setup in chosen:
        target = report.targets[setup.name] = target_at(
            addresses[setup.name], models_path=models_path, component=component
        )
        target.wait(wait_seconds)
        if lacks := list(missing(target, setup)):
            report.missing[setup.name] = lacks
    for setup in chosen:
        if setup.name in report.missing:
            continue
        target = report.targets[setup.name]
        if isinstance(target, ContainerTarget) and not setup.is_multi_model:
            report.contract[setup.name] = failures(target, setup.code)
        answers = asked(target, setup)
        report.groups += counted(answers, is_local=target.is_local, more_reasons=reasons)
    return report


def _shown(answer: ObservedAnswer) -> str:
    if answer.status == NO_ANSWER:
        return f"no answer ({answer.body.decode()})"
    return f"{answer.status} {answer.content_type or ''} {answer.body[:160]!r}"
