"""What `servable check` finds of planted faults, and what the linters of CloudFormation templates find.

python -m tests.preflight.beyond_linters   (minutes; writes docs/beyond-linters.md)

The faults are those of the rules' own tests: of each rule the first lines that break it. Each
is synthesised as if `servable check` had said nothing. A linter has found a fault where it says anything of
the template that it does not say of the valid file's.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import cloudformation_validate as validate

from infra.parameters.loading import Loaded
from infra.preflight.check import RULES, check
from stacks.environment_stage import EnvironmentStage
from tests.checkouts import ROOT
from tests.conftest import RANKER, valid
from tests.preflight.beyond_linters_public import FAULTS, reproduced
from tests.preflight.overlay import overlaid
from tests.preflight.test_every_rule import ROWS

PAGE = ROOT / "docs" / "beyond-linters.md"
LINTERS = ("cfn-lint", "cloudformation-validate")
HEAD = """\
# What `servable check` finds beyond template linters

For whoever asks whether cfn-lint in a pipeline is enough. Written by
`python -m tests.preflight.beyond_linters`; do not edit.

The table counts how many of {count} faults each program finds: one fault for each rule whose test is lines of
an environment file, synthesised as if `servable check` had not refused it. A linter has found a fault if it
reports anything about the template that it does not report about the valid file's. cfn-lint has its default
rules; cloudformation-validate is AWS's own validator, which CDK offers as well.
`servable check` finds all of them because they are the faults that its rules are tested with; what the
linters find beyond them was not counted.

"""
TAIL = """\
{lost} of the faults make no template: synthesis fails, where `servable check` says why. Faults in files (a \
SavedModel that is cut short, code that does not import, a secret in the code folder) are in no template, \
and not in this table. Found by a linter too: {found}."""

PUBLIC = """
## Faults that public threads tell of

{count} faults that people met and described in public threads, each reproduced here over a valid file: lines
of the environment, or files in the model's and code's folders. They were chosen for their kinds and not
drawn at random, so that the shares are not those of all faults. {unknowable} of them are not knowable
without AWS or without running the code. Of the other {knowable}, `servable check` finds {name}
by name, {vaguely} vaguely (it refuses the file, but its message does not name the fault)
and misses {no}; cfn-lint finds {cfn}
and cloudformation-validate {validate}, where any message that the valid file's template does not get counts.
{templates} of the faults change lines that can be in a template, of which {lost} make none; the others are in
files. Each row's lines are in `tests/preflight/beyond_linters_faults.toml`;
`python -m pytest tests/preflight/test_beyond_linters.py` repeats what check says, and the command
above all of it.

| fault | thread | servable check | cfn-lint | cloudformation-validate |
|---|---|---|---|---|
"""


def main() -> int:
    rows = list({row.rule: row for row in reversed(ROWS)}.values())
    subjects = {rule.id: rule.__module__.split(".")[2] for rule in RULES}
    counts: dict[str, Counter[str]] = {}
    both: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="servable-faults-") as temporary:
        folder = Path(temporary)
        project = _project(folder / "project")
        templates = {"": _template(overlaid(project, ""), folder / "valid")}
        for row in rows:
            loaded = overlaid(project, row.fails)
            found = any(finding.rule == row.rule for finding in check(loaded))
            template = _template(loaded, folder / row.rule)
            counts.setdefault(subjects[row.rule], Counter()).update(
                {"faults": 1, "servable check": found, "no template": template is None}
            )
            templates[row.rule] = template
            print(f"{row.rule}: {'synthesised' if template else 'no template'}", flush=True)
        said = _said({name: file for name, file in templates.items() if file})
    for rule, by in said.items():
        for linter, messages in by.items():
            if rule and messages - said[""][linter]:
                both.add(rule)
                counts[subjects[rule]][linter] += 1
    text = "".join((*_page(counts, both, len(rows)), *_public()))
    PAGE.write_text(text, encoding="utf-8")
    return 0


def _page(counts: dict[str, Counter[str]], both: set[str], faults: int) -> Iterator[str]:
    yield HEAD.format(count=faults)
    columns = ("faults", "servable check", *LINTERS, "no template")
    yield f"| rules about | {' | '.join(columns)} |\n|---|{'---:|' * len(columns)}\n"
    total: Counter[str] = sum(counts.values(), Counter())
    for name, row in [*sorted(counts.items()), ("together", total)]:
        yield f"| {name} | {' | '.join(str(row[column]) for column in columns)} |\n"
    found = ", ".join(f"[{rule}](rules.md#{rule})" for rule in sorted(both)) or "none"
    last = TAIL.format(lost=total["no template"], found=found)
    yield f"\n{textwrap.fill(last, 110, break_long_words=False, break_on_hyphens=False)}\n"


def _public() -> Iterator[str]:
    """The section about faults of public threads."""
    with tempfile.TemporaryDirectory(prefix="servable-faults-") as temporary:
        folder = Path(temporary)
        templates = {"": _template(reproduced({}, folder / "base"), folder / "valid")}
        for fault in FAULTS:
            if "lines" in fault:
                loaded = reproduced(fault, folder / fault["id"])
                templates[fault["id"]] = _template(loaded, folder / f"{fault['id']}-out")
        ids = _said({name: file for name, file in templates.items() if file})
    found = {
        linter: {name for name, by in ids.items() if by[linter] - ids[""][linter]}
        for linter in LINTERS
    }
    verdicts = Counter(fault["found"] for fault in FAULTS)
    yield PUBLIC.format(
        count=len(FAULTS),
        knowable=len(FAULTS) - verdicts["unknowable"],
        **{name: verdicts[name] for name in ("unknowable", "name", "vaguely", "no")},
        cfn=len(found["cfn-lint"]),
        validate=len(found["cloudformation-validate"]),
        templates=len(templates) - 1,
        lost=sum(file is None for file in templates.values()),
    )
    for fault in FAULTS:
        rule = fault["rule"]
        # Findings about a key's form have no rule, and no place on the page of rules.
        link = rule if rule in ("", "parameters") else f"[{rule}](rules.md#{rule})"
        verdict = {"name": link, "vaguely": f"vaguely: {link}"}.get(fault["found"], fault["found"])
        by = " | ".join("yes" if fault["id"] in found[linter] else "no" for linter in LINTERS)
        thread = "/".join(fault["address"].removeprefix("https://github.com/").split("/")[1::2])
        cells = f"[{thread}]({fault['address']}), {fault['date']} | {verdict} | {by}"
        yield f"| {fault['fault']} | {cells} |\n"


def _project(folder: Path) -> Path:
    (folder / "environments").mkdir(parents=True)
    shutil.copytree(RANKER, folder / "model")
    (folder / "code").mkdir()
    (folder / "code" / "inference.py").write_text("def handler(data, context): ...\n")
    return folder


def _template(loaded: Loaded, out: Path) -> Path | None:
    """The template of the endpoint's stack, with the errors ignored; None where it cannot be made."""
    app = cdk.App(
        analytics_reporting=False,
        builtin_cloud_formation_validation=False,
        stack_traces=False,
        tree_metadata=False,
        context=json.loads((ROOT / "cdk.json").read_text())["context"],
        outdir=str(out),
    )
    try:
        EnvironmentStage(app, valid(loaded), [])
        app.synth()
        return next(out.glob("assembly-*/*endpoint*.template.json"))
    except Exception:
        return None


def _said(templates: dict[str, Path]) -> dict[str, dict[str, set[str]]]:
    """By rule and linter: the ids of what is said."""
    engine: Any = validate.RegoEngine()
    found: dict[str, dict[str, set[str]]] = {
        name: {
            "cfn-lint": set(),
            "cloudformation-validate": {
                one.rule_id for one in engine.validate_template(str(file)).diagnostics
            },
        }
        for name, file in templates.items()
    }
    names = {str(file): name for name, file in templates.items()}
    command = [str(Path(sys.executable).with_name("cfn-lint")), "--format", "parseable", *names]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in ran.stdout.splitlines():
        file, *_, rule, _ = line.split(":", 6)
        found[names[file]]["cfn-lint"].add(rule)
    return found


if __name__ == "__main__":
    sys.exit(main())
