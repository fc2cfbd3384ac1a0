"""Checks all environments' templates with cdk-nag, cfn-lint, and cloudformation-validate."""

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cloudformation_validate as validate

from stacks.app import synthesise

ROOT = Path(__file__).resolve().parents[1]
SECURE = ROOT / "scripts" / "secure"
# Rule -> text in its message. Both require templates that any account can deploy; an environment names
# its account; a role that the file names is in no template.
ACCEPTED = {"W9013": "", "W9002": "'ExecutionRoleArn'"}
# An environment that is rejected on purpose; its stacks are empty.
REFUSED = "refused"
# Its stage, and the stack that reports it if nothing is selected.
EXPECTED = (f"/{REFUSED}/", f"/refused_{REFUSED}")
# Any repository: a role's template is the same for each.
REPOSITORY = "owner@1/name@2"
# The types' check keeps one core busy.
CORES = max(1, (os.cpu_count() or 1) - 1)
CONTEXT = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
AUDITORS = "AwsSolutions,NIST80053R5,HIPAASecurity,PCIDSS321"


def prepare_folders(temporary: Path) -> dict[Path, str]:
    """Return every folder of environments, with the rule packs that check its templates."""
    secure = temporary / "secure"
    secure.mkdir()
    # These files extend the secure base, and a file extends only files next to it.
    for file in [*(ROOT / "environments").glob("*base.toml"), *SECURE.glob("*.toml")]:
        shutil.copy(file, secure)
    return {**dict.fromkeys([ROOT / "environments", *list_presets(ROOT)], "true"), secure: AUDITORS}


def list_presets(root: Path) -> list[Path]:
    """Return the folders of examples/ with environments, whose files begin with `#:schema`."""
    files = (root / "examples").rglob("*.toml")
    return sorted({file.parent for file in files if file.read_text("utf-8").startswith("#:schema")})


def synthesise_folder(out: Path, folder: Path, packs: str) -> list[str]:
    """Return a folder's errors and cdk-nag's findings, without the CLI: it takes 2 s a folder."""
    context = {**CONTEXT, "environments": str(folder), "nag": packs}
    if folder in (ROOT / "environments", ROOT / "examples" / "variants"):
        context |= {"pipeline": REPOSITORY, "registry-token": "github/approved"}
    try:
        synthesise(ROOT, outdir=str(out), context=context)
    except (SystemExit, RuntimeError) as failed:
        return [f"{folder}: {failed}"]
    metadata = [json.loads(file.read_text()) for file in out.glob("**/*.metadata.json")]
    # Errors with which the CLI would reject the synthesis: the path in the app, and the message.
    errors = [
        f"{path}: {entry['data']}"
        for constructs in metadata
        for path, entries in constructs.items()
        for entry in entries
        if entry["type"] == "aws:cdk:error" and not path.startswith(EXPECTED)
    ]
    report = json.loads((out / "validation-report.json").read_text())
    return errors + [
        f"cdk-nag: {violation['ruleName']}: {construct['constructPath']}: {violation['description'][:160]}"
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    ]


def validate_template(template: Path, engine: validate.RegoEngine) -> list[str]:
    """Return the findings of AWS's own validator, run natively; the CDK's plugin takes 7 s."""
    return [
        f"cloudformation-validate: {one.rule_id}: {template.name}: {one.message}"
        for one in engine.validate_template(str(template)).diagnostics
        if one.severity is not validate.Severity.INFO
        and not (one.rule_id in ACCEPTED and ACCEPTED[one.rule_id] in one.message)
    ]


def lint_templates(templates: list[Path]) -> list[str]:
    if not templates:
        return []
    linter = str(Path(sys.executable).with_name("cfn-lint"))
    command = [linter, "--format", "parseable", *map(str, templates)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    return [f"cfn-lint: {line}" for line in (ran.stdout + ran.stderr).splitlines() if line]


def main() -> int:
    # New processes, not forked ones: CDK's Node.js belongs to the process that started it.
    spawned = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(CORES, spawned) as pool:
        packs = prepare_folders(Path(name))
        outs = {folder: Path(name, f"out{number}") for number, folder in enumerate(packs)}
        found, templates = [], []
        said = pool.map(synthesise_folder, outs.values(), packs.keys(), packs.values())
        for (folder, out), findings in zip(outs.items(), said, strict=True):
            found += findings
            files = sorted(out.glob("**/*.template.json"))
            made = [file for file in files if json.loads(file.read_text()).get("Resources")]
            if not made:
                found.append(f"{folder}: no template was synthesized")
            templates += made
        engine = validate.RegoEngine()
        for template in templates:
            found += validate_template(template, engine)
        for findings in pool.map(lint_templates, [templates[n::CORES] for n in range(CORES)]):
            found += findings
    print("\n".join(found) or f"{len(templates)} templates, no finding")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
