"""Writes docs/reference/rules.md from the rules' docstrings, remedies, and examples."""

import re

from infra.parameters.finding import Severity
from infra.preflight.check import RULES
from infra.preflight.rule import Rule

_HEAD = """\
# Every rule

Generated from the rules in infra/preflight by `python scripts/generate.py`; do not edit.

Look up a finding of `servable check`. `cdk synth` and `cdk deploy` report the same findings and stop only
the stacks that have an error. A rule that lacks an input counts as *not checked*, never as passed:
`--against REF` gives the deployed revision, `[traffic]` the callers' requests, `artifact.size_gib` an
archive's size.
[Verdicts](../verdicts.md) says what no rule can see, and [beyond-linters.md](beyond-linters.md) which faults
template linters find. [Parameters](parameters.md) lists the keys; environments/schema.json has their bounds.

You can accept a warning, and an error marked *acceptable*, with a reason of at least ten characters. If the
finding names a file, name it too:

    [acknowledge]
    instance-retired = "moves to ml.g4dn.xlarge with the next model"
    "code-holds-secrets:code/.env" = "holds log levels only"

In a fix, "it" is the key that the finding names, and "those" are the values that it lists. A rule without a
fix here has one in its finding. The image is that of TensorFlow 2.20 or earlier, unless a rule names one.
"""
# An example is shown only where the rule's text does not name its key, and one line shows it.
_LONGEST_EXAMPLE = 50
_ADDRESS = re.compile(r"https://[^\s;,]+")
_NOTES = re.compile(r"\s*\([^()]*\)|,? (?:read )?2\d{3}-\d\d(?:-\d\d)?")


def markdown() -> str:
    """Return the text of docs/reference/rules.md."""
    return _HEAD + "".join(f"\n## {rule.id}\n\n{_describe(rule)}\n" for rule in RULES)


def _describe(rule: type[Rule]) -> str:
    """Return severity, meaning, fix, example, and source of a rule, in one paragraph."""
    parts = [f"{_name_severity(rule)}. {rule.why()}"]
    if rule.remedy:
        remedy = rule.remedy.replace("{self.id}", rule.id)
        remedy = re.sub(r"\{(?:[\w.]+\.)?(\w+)\}", lambda match: match[1].upper(), remedy)
        parts.append(f"Fix: {remedy}.")
    if example := _select_example(rule):
        parts.append(f"Example: `{example}`.")
    if source := _NOTES.sub("", rule.source()):
        parts.append(f"[Source]({source})." if _ADDRESS.fullmatch(source) else f"Source: {source}.")
    return " ".join(parts)


def _name_severity(rule: type[Rule]) -> str:
    if rule.severity is Severity.WARNING:
        return "Warning"
    return "Error, acceptable" if rule.acknowledgeable else "Error"


def _select_example(rule: type[Rule]) -> str:
    """Return the example if it explains what the rule's text does not, or an empty string."""
    key = rule.example.partition(" =")[0].rpartition(".")[2]
    is_line = "\n" not in rule.example and not rule.example.startswith("#")
    if is_line and len(rule.example) <= _LONGEST_EXAMPLE and key not in rule.why() + rule.remedy:
        return rule.example
    return ""
