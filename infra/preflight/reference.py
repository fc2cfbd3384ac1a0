"""docs/rules.md: every rule, from the rules themselves."""

from collections.abc import Iterator

from infra.parameters.finding import Severity
from infra.preflight.check import RULES
from infra.preflight.rule import Rule

_HEAD = """\
# Every rule

Generated from the rules in infra/preflight by `python scripts/generate.py`; do not edit.

`servable check` shows what these rules find, in a second and without AWS; `cdk synth` and `cdk deploy` show
the same, and stop the stacks that have an error and no others (`cdk synth` without a selector exits with 1
where there is one). A rule that lacks an input is shown as *not checked*, never as passed: `--against REF`
gives the revision that is deployed, `[traffic]` what callers send, `artifact.size_gib` an archive's size.
What template linters find of the same faults is [measured](beyond-linters.md).

What one key may hold, its form and its range, is no rule: it is refused as the file is read. The keys
stand in [parameters.md](parameters.md), the bounds of each in environments/schema.json, which editors check.

What a rule says of the container is true of image 2.20 and of those before it (both codes were read), unless
it names one of the two.

A rule marked *can be accepted* may be accepted in the file, with a reason of ten characters or more. An
acceptance of something that is not there is a finding itself (`acknowledge-nothing`).

    [acknowledge]
    instance-retired = "moves to ml.g4dn.xlarge with the next model"

Where the finding says so, the acceptance names the file too, and accepts no other:

    [acknowledge]
    "code-holds-secrets:code/.env" = "holds log levels only"
"""


def markdown() -> str:
    """The whole document."""
    lines = [_HEAD, "| rule | severity | |", "|---|---|---|"]
    lines += [f"| [{rule.id}](#{rule.id}) | {_severity(rule)} | {_first(rule)} |" for rule in RULES]
    for rule in RULES:
        lines += ["", *_section(rule)]
    return "\n".join(lines) + "\n"


def _section(rule: type[Rule]) -> Iterator[str]:
    yield f"## {rule.id}"
    yield ""
    yield f"{_severity(rule)}. {rule.why()}"
    yield ""
    yield from (f"    {_short(line)}" for line in rule.example.splitlines())
    yield ""
    yield f"Source: {rule.source() or 'none of AWS: it is about this project and its files'}"


def _severity(rule: type[Rule]) -> str:
    word = "Error" if rule.severity is Severity.ERROR else "Warning"
    return f"{word}, can be accepted" if rule.acknowledgeable else word


def _first(rule: type[Rule]) -> str:
    return rule.why().split(". ")[0].rstrip(".")


def _short(line: str) -> str:
    return line.replace("a" * 64, "…")
