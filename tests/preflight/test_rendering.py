"""Findings as text: their number by severity, their lines, and what is not checked; the page of rules."""

from pathlib import Path

from infra.parameters.finding import Finding, Severity
from infra.preflight.reference import markdown
from infra.preflight.rendering import counted, line, listed, not_checked, summary, to_mend

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "rules.md"


def finding(severity: Severity, rule: str = "gpu-idle", remedy: str = "change it") -> Finding:
    return Finding(
        rule=rule, severity=severity, file="prod.toml", key="a.b", problem="wrong", remedy=remedy
    )


ERROR = finding(Severity.ERROR)
WARNING = finding(Severity.WARNING)
ACCEPTED = finding(Severity.ACKNOWLEDGED)
SKIPPED = finding(Severity.NOT_CHECKED)


def test_the_page_lists_every_rule() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert markdown() == text
    assert "Generated from" in text.splitlines()[2]
    assert len(text.split()) <= 6_000


def test_a_summary_counts_findings_by_severity_each_number_with_its_noun() -> None:
    for findings, words in [
        ([], "ok"),
        ([SKIPPED], "ok, 1 not checked"),
        ([ERROR], "1 error"),
        ([ERROR, ERROR, WARNING], "2 errors, 1 warning"),
        ([WARNING, WARNING, SKIPPED, SKIPPED], "2 warnings, 2 not checked"),
        ([ACCEPTED], "1 acknowledged"),
        ([SKIPPED, ACCEPTED, WARNING, ERROR], "1 error, 1 warning, 1 acknowledged, 1 not checked"),
    ]:
        assert summary(findings) == words
    for number, words in [(0, "0 rows"), (1, "1 row"), (2, "2 rows")]:
        assert counted(number, "row") == words


def test_a_severity_stands_before_the_message_and_errors_under_their_number() -> None:
    for finding, text in [
        (ERROR, f"{ERROR} [gpu-idle]"),
        (WARNING, f"warning: {WARNING} [gpu-idle]"),
        (ACCEPTED, f"acknowledged: {ACCEPTED} [gpu-idle]"),
    ]:
        assert line(finding) == text
    lines = f"  {ERROR}\n  {ERROR}"
    assert (to_mend([ERROR, ERROR]), listed([])) == (f"2 to mend:\n{lines}", "")


def test_what_is_not_checked_is_told_once_for_each_missing_input() -> None:
    size = finding(Severity.NOT_CHECKED, "memory", "give size_gib")
    disk = finding(Severity.NOT_CHECKED, "storage-too-small", "give size_gib")
    rate = finding(Severity.NOT_CHECKED, "capacity-traffic", "give peak_rps")
    found = {"dev": [size, disk, WARNING], "prod": [size, rate, ERROR]}
    assert not_checked(found) == [
        "not checked in dev, prod until you give size_gib:\n  memory, storage-too-small",
        "not checked in prod until you give peak_rps:\n  capacity-traffic",
    ]
