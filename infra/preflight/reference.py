"""Writes docs/rules.md from the rules' docstrings and examples."""

from infra.parameters.finding import Severity
from infra.preflight.check import RULES
from infra.preflight.rule import Rule

_HEAD = """\
# Every rule

Generated from the rules in infra/preflight by `python scripts/generate.py`; do not edit.

This page explains every finding of `servable check`, for whoever got one. The command takes a second and
needs no AWS; `cdk synth` and `cdk deploy` show the same findings and stop only the stacks that have an error
(`cdk synth` without a selector then exits with 1). A rule that lacks an input counts as *not checked*,
never as passed: `--against REF` gives the revision that is deployed, `[traffic]` the callers' requests,
`artifact.size_gib` an archive's size. [beyond-linters.md](beyond-linters.md) counts which of these faults
template linters find, [verdicts.md](verdicts.md) what no rule can see.

A key's type, form and range are not rules: invalid values are refused when the file is read.
[parameters.md](parameters.md) lists the keys, and environments/schema.json, which editors use, their bounds.

Statements about the container hold for image 2.20 and earlier ones (the code of both was read), unless a rule
names one of them.

A rule marked *can be accepted* may be accepted in the environment file, with a reason of at least ten
characters. An acceptance without a finding is a finding itself (`acknowledge-nothing`).

    [acknowledge]
    instance-retired = "moves to ml.g4dn.xlarge with the next model"

If the finding says so, the acceptance also names the file, and accepts only that one:

    [acknowledge]
    "code-holds-secrets:code/.env" = "holds log levels only"
"""


def markdown() -> str:
    """The text of docs/rules.md."""
    lines = [_HEAD, "| rule | severity | |", "|---|---|---|"]
    lines += [f"| [{rule.id}](#{rule.id}) | {_severity(rule)} | {_first(rule)} |" for rule in RULES]
    for rule in RULES:
        example = [f"    {line}" for line in rule.example.replace("a" * 64, "…").splitlines()]
        source = rule.source() or "this project itself"
        lines += ["", f"## {rule.id}", "", f"{_severity(rule)}. {rule.why()}", "", *example]
        lines += ["", f"Source: {source}"]
    return "\n".join(lines) + "\n"


def _severity(rule: type[Rule]) -> str:
    word = "Error" if rule.severity is Severity.ERROR else "Warning"
    return f"{word}, can be accepted" if rule.acknowledgeable else word


def _first(rule: type[Rule]) -> str:
    return rule.why().split(". ")[0].rstrip(".")
