"""Compares every template of this tree with that of an earlier revision.

python -m scripts.compare_templates REVISION

Synthesises each folder of environments and every preset in examples/, with the sources and the
files of both trees. Exits with code 1 and a diff if a template differs in more than what a change
of our own sources changes on purpose (`MASKS`).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.check_templates import REPOSITORY, list_presets

ROOT = Path(__file__).resolve().parents[1]
# What is replaced by its name before two templates are compared, in this order; the group of a
# pattern is kept.
MASKS = {
    # The key of an archive or a function is a hash over its files, our handler's among them.
    "SHA-256": re.compile(r"()\b[0-9a-f]{64}\b"),
    # Named after where the archive lies; behind every ID, CDK adds a hash of the path in capitals.
    "id of a role's policy": re.compile(r"(ModelRolePolicy)[0-9a-f]{8}[0-9A-F]{8}\b"),
    # Rollback alarms are named after the configuration that they guard (decision 0005).
    "id of a rollback alarm": re.compile(r"(Rollback\w+?)[0-9a-f]{8}[0-9A-F]{8}\b"),
    "name of a rollback alarm": re.compile(r"(-rollback-[\w-]+?-)[0-9a-f]{8}\b"),
    "configuration of a rollback alarm": re.compile(r"(to configuration )[0-9a-f]{8}\b"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("revision", help="git revision to compare with")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        tree = Path(temporary, "tree")
        worktree = ["git", "-C", str(ROOT), "worktree"]
        add = [*worktree, "add", "--quiet", "--detach", str(tree), arguments.revision]
        subprocess.run(add, check=True)
        try:
            write_templates(tree, Path(temporary, "before"))
            write_templates(ROOT, Path(temporary, "after"))
        finally:
            subprocess.run([*worktree, "remove", "--force", str(tree)], check=True)
        diff = ["git", "diff", "--no-index", "--stat", "--patch", "before", "after"]
        differs = subprocess.run(diff, cwd=temporary, check=False).returncode
    print("templates differ" if differs else "no other difference")
    return differs


def write_templates(tree: Path, out: Path) -> None:
    """Write every template that `tree` synthesises, masked, with one key per line."""
    for folder in [tree / "environments", *list_presets(tree)]:
        name = str(folder.relative_to(tree))
        context = json.loads((tree / "cdk.json").read_text(encoding="utf-8"))["context"]
        context |= {"environments": str(folder), "pipeline": REPOSITORY}
        with tempfile.TemporaryDirectory() as assembly:
            # Before the installed packages, which are those of this tree.
            paths = os.pathsep.join(map(str, (tree, *sorted(tree.glob("packages/*/")))))
            ours = {"PYTHONPATH": paths, "CDK_OUTDIR": assembly}
            env = {**os.environ, **ours, "CDK_CONTEXT_JSON": json.dumps(context)}
            command = [sys.executable, "app.py"]
            ran = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True)
            files = sorted(Path(assembly).rglob("*.template.json"))
            # CDK exits with 1 where an environment is refused, after it wrote the others.
            if not files:
                sys.exit(f"{tree}: {name}: `python app.py` failed:\n{ran.stdout}{ran.stderr}")
            for file in files:
                template = json.loads(file.read_text())
                if template.get("Resources"):  # others are of what is refused, and never deployed
                    target = out / name / file.name
                    target.parent.mkdir(parents=True, exist_ok=True)
                    # CloudFormation ignores the order of keys.
                    text = json.dumps(template, indent=1, sort_keys=True)
                    target.write_text(mask_text(text) + "\n")


def mask_text(text: str) -> str:
    """Return the text with each match of a mask replaced by the mask's name."""
    for name, pattern in MASKS.items():
        text = pattern.sub(rf"\1<{name}>", text)
    return text


if __name__ == "__main__":
    sys.exit(main())
