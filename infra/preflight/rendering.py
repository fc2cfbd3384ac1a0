"""Renders findings as text for the terminal, for refused stacks and for `servable plan`.

`str(finding)` is the message of one finding; programs read `Finding.as_json`.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from infra.parameters.finding import Finding, Severity


def counted(number: int, word: str) -> str:
    """The number with its noun in singular or plural: 1 instance, 2 instances."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def line(finding: Finding) -> str:
    """The finding's message, after a severity other than error, with the name that [acknowledge] takes."""
    mark = "" if finding.severity is Severity.ERROR else f"{finding.severity.value}: "
    rule = "" if finding.rule == "parameters" else f" [{finding.acknowledgement}]"
    return f"{mark}{finding}{rule}"


def listed(findings: Sequence[Finding]) -> str:
    """One indented line for each finding."""
    return "\n".join(f"  {finding}" for finding in findings)


def to_mend(errors: Sequence[Finding]) -> str:
    """The errors that refuse an environment: their number and a line for each."""
    return f"{len(errors)} to mend:\n{listed(errors)}"


def is_untold(finding: Finding) -> bool:
    """Whether a run was asked for, and could not tell: never a pass."""
    return finding.severity is Severity.NOT_CHECKED and finding.rule.startswith("run-")


def summary(findings: Sequence[Finding]) -> str:
    """The number of findings by severity: "ok, 2 not checked", "1 error, 2 warnings"."""
    counts = Counter(finding.severity for finding in findings)
    words = {
        Severity.ERROR: counted(counts[Severity.ERROR], "error"),
        Severity.WARNING: counted(counts[Severity.WARNING], "warning"),
        Severity.ACKNOWLEDGED: f"{counts[Severity.ACKNOWLEDGED]} acknowledged",
        Severity.NOT_CHECKED: f"{counts[Severity.NOT_CHECKED]} not checked",
    }
    clean = set(counts) <= {Severity.NOT_CHECKED} and not any(map(is_untold, findings))
    return ", ".join(
        [*["ok"][:clean], *(words_of for severity, words_of in words.items() if counts[severity])]
    )


def list_unchecked(
    by_environment: Mapping[str, Sequence[Finding]], *, with_rules: bool = False
) -> list[str]:
    """Return a sentence for each question that stays open: its environments, and the inputs to give.

    `with_rules`: name the rules that need them too.
    """
    inputs: dict[str, dict[str, None]] = {}
    environments: dict[str, dict[str, None]] = {}
    rules: dict[str, dict[str, None]] = {}
    for name, findings in by_environment.items():
        for finding in findings:
            if finding.severity is Severity.NOT_CHECKED and not is_untold(finding):
                inputs.setdefault(finding.problem, {})[finding.remedy.removeprefix("give ")] = None
                environments.setdefault(finding.problem, {})[name] = None
                rules.setdefault(finding.problem, {})[finding.rule] = None
    texts = []
    for question, needed in inputs.items():
        where = f" in {', '.join(environments[question])}" if len(by_environment) > 1 else ""
        named = f" [{', '.join(rules[question])}]" if with_rules else ""
        texts.append(f"not checked{where}: {question}; give {' and '.join(needed)}{named}")
    return texts
