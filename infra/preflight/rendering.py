"""Renders findings as text for the terminal, for rejected stacks, and for `servable plan`.

`str(finding)` is the message of one finding; programs read `Finding.as_json`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from infra.parameters.finding import Finding, Severity


def format_count(number: int, word: str) -> str:
    """Return the number with its noun in singular or plural: 1 instance, 2 instances."""
    return f"{number:,} {word}{'s' * (number != 1)}"


def format_finding(finding: Finding) -> str:
    """Return the finding's message with the name that [acknowledge] takes.

    A severity other than error comes before the message.
    """
    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    rule = "" if finding.rule == "parameters" else f" [{finding.acknowledgement}]"
    return f"{mark}{finding}{rule}"


def format_findings(findings: Sequence[Finding]) -> str:
    """Return one indented line for each finding."""
    return "\n".join(f"  {finding}" for finding in findings)


def format_errors(errors: Sequence[Finding]) -> str:
    """Return the number of errors for which an environment is rejected, and a line for each."""
    return f"{len(errors)} to fix:\n{format_findings(errors)}"


def is_inconclusive(finding: Finding) -> bool:
    """Return whether a requested run gave no result. Such a run never counts as passed."""
    return finding.severity is Severity.NOT_CHECKED and finding.rule.startswith("run-")


def summarize(findings: Sequence[Finding]) -> str:
    """Return the number of findings by severity: "ok, 2 not checked", "1 error, 2 warnings"."""
    counts = Counter(finding.severity for finding in findings)
    clean = set(counts) <= {Severity.NOT_CHECKED} and not any(map(is_inconclusive, findings))
    parts = ["ok"] if clean else []
    for severity in (Severity.ERROR, Severity.WARNING):
        parts += [format_count(counts[severity], severity.value)] if counts[severity] else []
    for severity in (Severity.ACKNOWLEDGED, Severity.NOT_CHECKED):
        parts += [f"{counts[severity]} {severity.value}"] if counts[severity] else []
    return ", ".join(parts)


def list_open_questions(
    by_environment: Mapping[str, Sequence[Finding]], *, with_rules: bool = False
) -> list[str]:
    """Return a sentence for each open question, with its environments and the missing inputs.

    `with_rules` adds the rules that need the inputs, otherwise their number if there are several.
    """
    open_findings: dict[str, list[tuple[str, Finding]]] = {}
    for name, findings in by_environment.items():
        for finding in findings:
            if finding.severity is Severity.NOT_CHECKED and not is_inconclusive(finding):
                open_findings.setdefault(finding.problem, []).append((name, finding))
    texts = []
    for question, rows in open_findings.items():
        needed = " and ".join(dict.fromkeys(one.remedy.removeprefix("give ") for _, one in rows))
        environments = ", ".join(dict.fromkeys(name for name, _ in rows))
        where = f" in {environments}" if len(by_environment) > 1 else ""
        rules = f" ({len(rows)} checks)" if len(rows) > 1 else ""
        if with_rules:
            rules = f" [{', '.join(dict.fromkeys(one.rule for _, one in rows))}]"
        texts.append(f"not checked{where}: {question}; give {needed}{rules}")
    return texts
