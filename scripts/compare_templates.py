"""Compares every template of this tree with that of an earlier revision.

python -m scripts.compare_templates REVISION [--exact]

Synthesises each folder of environments, every preset in examples/ and the secure forms, with
the sources and the files of both trees. Exits with 1 and a diff where a template differs in
more than what a change of our own sources changes on purpose (`MASKS`); --exact masks nothing.
"""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from scripts.check_templates import REPOSITORY

ROOT = Path(__file__).resolve().parents[1]
DIFF_LINES = 40  # of each template: enough to see what it is about
# What is replaced by its name before two templates are compared, in this order; the group of a
# pattern is kept.
MASKS = {
    # The key of an archive or a function is a hash over its files, our handler's among them.
    "SHA-256": re.compile(r"()\b[0-9a-f]{64}\b"),
    # The grant that lets a role read an archive is named after where the archive lies. Behind
    # every id, CDK adds a hash of the path in capitals.
    "id of a role's policy": re.compile(r"(ModelRolePolicy)[0-9a-f]{8}[0-9A-F]{8}\b"),
    # Rollback alarms are named after the configuration that they guard (decision 0005).
    "id of a rollback alarm": re.compile(r"(Rollback\w+?)[0-9a-f]{8}[0-9A-F]{8}\b"),
    "name of a rollback alarm": re.compile(r"(-rollback-[\w-]+?-)[0-9a-f]{8}\b"),
    "configuration of a rollback alarm": re.compile(r"(to configuration )[0-9a-f]{8}\b"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("revision", help="the revision to compare with, as git names it")
    parser.add_argument("--exact", action="store_true", help="mask nothing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        before = Path(temporary, "before")
        worktree = ["git", "worktree"]
        subprocess.run(
            [*worktree, "add", "--quiet", "--detach", before, arguments.revision],
            cwd=ROOT,
            check=True,
        )
        try:
            old = templates(before, Path(temporary, "old"))
            new = templates(ROOT, Path(temporary, "new"))
        finally:
            subprocess.run([*worktree, "remove", "--force", before], cwd=ROOT, check=True)
    masked: Counter[str] = Counter()
    lines = [
        line
        for name in sorted(old.keys() | new.keys())
        for line in differences(
            name, old.get(name, ""), new.get(name, ""), {} if arguments.exact else MASKS, masked
        )
    ]
    print("\n".join(lines) or f"{len(new)} templates, no other difference")
    for mask, count in (+masked).items():
        print(f"masked: {mask}: {count} templates differ in it")
    return int(bool(lines))


def templates(tree: Path, out: Path) -> dict[str, str]:
    """The text of every template that `tree` synthesises, by `folder/path`; one key a line."""
    presets = {
        file.parent
        for file in tree.glob("examples/**/*.toml")
        if file.read_text(encoding="utf-8").startswith("#:schema")
    }
    made: dict[str, str] = {}
    for folder in [tree / "environments", *sorted(presets)]:
        name = str(folder.relative_to(tree))
        context = json.loads((tree / "cdk.json").read_text(encoding="utf-8"))["context"]
        context |= {"environments": str(folder), "pipeline": REPOSITORY}
        target = out / name.replace("/", "-")
        ran = subprocess.run(
            [sys.executable, "app.py"],
            cwd=tree,
            env={
                **os.environ,
                # Before the installed packages, which are those of this tree.
                "PYTHONPATH": str(tree),
                "CDK_OUTDIR": str(target),
                "CDK_CONTEXT_JSON": json.dumps(context),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        files = sorted(target.rglob("*.template.json"))
        # CDK exits with 1 where an environment is refused, after it wrote the others.
        if not files:
            sys.exit(f"{tree}: {name}: `python app.py` failed:\n{ran.stdout}{ran.stderr}")
        for file in files:
            template = json.loads(file.read_text())
            if template.get("Resources"):  # others are of what is refused, and never deployed
                made[f"{name}/{file.name}"] = json.dumps(template, indent=1)
    return made


def differences(
    name: str, old: str, new: str, masks: dict[str, re.Pattern[str]], masked: Counter[str]
) -> list[str]:
    """The first lines of a diff after masking; counts in `masked` which masks were needed."""
    for mask, pattern in masks.items():
        before, after = ([match[0] for match in pattern.finditer(text)] for text in (old, new))
        masked[mask] += before != after
        old, new = (pattern.sub(rf"\1<{mask}>", text) for text in (old, new))
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"before: {name}", f"after: {name}", lineterm="", n=2
    )
    return list(lines)[:DIFF_LINES]


if __name__ == "__main__":
    sys.exit(main())
