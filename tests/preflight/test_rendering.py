"""Findings as text: their number by severity, their lines, and what is not checked; the page of rules."""

from pathlib import Path

from infra.parameters.finding import Finding, Severity
from infra.preflight import rendering
from infra.preflight.reference import render_rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "rules.md"


def finding(
    severity: Severity, rule: str = "gpu-idle", remedy: str = "change it", problem: str = "wrong"
) -> Finding:
    return Finding(
        rule=rule, severity=severity, file="prod.toml", key="a.b", problem=problem, remedy=remedy
    )


ERROR, WARNING, ACCEPTED, SKIPPED = map(finding, Severity)


def test_the_page_lists_every_rule() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert render_rules() == text
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
        assert rendering.summarize(findings) == words
    for number, words in [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1000, "1,000 rows")]:
        assert rendering.format_count(number, "row") == words


def test_a_severity_stands_before_the_message_and_errors_under_their_number() -> None:
    for finding, text in [
        (ERROR, f"{ERROR} [gpu-idle]"),
        (WARNING, f"warning: {WARNING} [gpu-idle]"),
        (ACCEPTED, f"acknowledged: {ACCEPTED} [gpu-idle]"),
    ]:
        assert rendering.format_finding(finding) == text
    lines = f"  {ERROR}\n  {ERROR}"
    assert rendering.format_errors([ERROR, ERROR]) == f"2 to fix:\n{lines}"
    assert rendering.format_findings([]) == ""


def test_each_open_question_is_listed_once_with_its_inputs() -> None:
    def open_question(rule: str, problem: str, needs: str) -> Finding:
        return finding(Severity.NOT_CHECKED, rule, f"give {needs}", problem)

    request = open_question("request-too-large", "whether bodies are too large", "request_bytes")
    response = open_question("answer-too-large", "whether bodies are too large", "answer_bytes")
    rate = open_question("capacity-traffic", "whether max_instances is enough", "peak_rps")
    found = {"dev": [request, response, WARNING], "prod": [request, rate]}
    bodies = "whether bodies are too large; give request_bytes and answer_bytes"
    assert rendering.list_open_questions(found) == [
        f"not checked in dev, prod: {bodies} (3 checks)",
        "not checked in prod: whether max_instances is enough; give peak_rps",
    ]
    dev = {"dev": found["dev"]}
    assert rendering.list_open_questions(dev) == [f"not checked: {bodies} (2 checks)"]
    rules = "request-too-large, answer-too-large"
    texts = rendering.list_open_questions(dev, with_rules=True)
    assert texts == [f"not checked: {bodies} [{rules}]"]
