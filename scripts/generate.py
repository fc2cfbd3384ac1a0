"""Writes the generated files; with --check, says which are stale and exits 1.

python scripts/generate.py [--check]
"""

import base64
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from grpc_tools import protoc

from infra.parameters import reference
from infra.preflight.reference import write_permissions, write_rules
from scripts.documentation.reference_pages import (
    list_local_services,
    write_commands,
    write_constructs,
)
from servable import __version__
from servable.new.project_files import STAMP

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "packages/servable-runtime/servable_tensors"
FOLDER = "servable/new/template"
SERVICE = "@service@"  # exchanged for the service's name when a project is written
# The virtual environment of the project before any other, as in this repository. A console script:
# a folder `stacks` or `infra` of the project does not shadow ours.
APP = 'PATH=".venv/bin:$PATH" servable-app'


def with_table(page: str, rows: Iterable[Sequence[str]]) -> str:
    """The text of a page, with these rows in its only table."""
    text = _text(page)
    head, rule, rest = re.split(r"^(\|[-:|]+\|\n)", text, flags=re.MULTILINE)
    _, end, tail = rest.partition("\n\n")
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return head + rule + table + (end + tail or "\n")


def assumptions() -> Iterator[tuple[str, ...]]:
    """(file, observed or chosen, text, number below it) of the comments that say so of servable_scaling."""
    comment = r"(?m)^ *# (Observed|Chosen): (.+(?:\n *# .+)*)\n(?:.* = ([\d.]+),?$)?"
    for file in sorted(ROOT.glob("packages/servable-scaling/servable_scaling/**/*.py")):
        for kind, text, number in re.findall(comment, file.read_text(encoding="utf-8")):
            yield f"`{file.name}`", kind.lower(), re.sub(r"\n *#", "", text).rstrip("."), number


def descriptor_set() -> str:
    """A FileDescriptorSet of all that the files need, in base64. Raises `RuntimeError`."""
    with TemporaryDirectory() as folder:
        result = Path(folder, "set")
        command = [
            "protoc",
            f"--proto_path={PROTOS}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            "--include_imports",
            f"--descriptor_set_out={result}",
            *(file.name for file in sorted(PROTOS.glob("*.proto"))),
        ]
        if protoc.main(command):
            raise RuntimeError(f"protoc does not compile the files in {PROTOS}; it says why above")
        return base64.encodebytes(result.read_bytes()).decode()


# The files of `servable new` that are this repository's own but for a name.


def _changed(file: str, /, **values: object) -> str:
    """A JSON file of this repository with other values."""
    return json.dumps({**json.loads(_text(file)), **values}, indent=2) + "\n"


def _cdk(**values: str) -> str:
    """With the version that `servable doctor` compares."""
    context = json.loads(_text("cdk.json"))["context"]
    return _changed("cdk.json", context={**context, STAMP: __version__}, **values)


def _lock() -> str:
    """With the version and the hash of the CDK CLI, and no registry's address."""
    lock = {**json.loads(_text("package-lock.json")), "name": SERVICE}
    root = {**lock["packages"][""], "name": SERVICE, "devDependencies": _cdk_cli()}
    cli = "node_modules/aws-cdk"
    lock["packages"] = {"": root, cli: lock["packages"][cli]}
    return json.dumps(lock, indent=2) + "\n"


def _cdk_cli() -> dict[str, str]:
    """All that a project has of npm: the client that tests here ask by is no part of it."""
    return {"aws-cdk": json.loads(_text("package.json"))["devDependencies"]["aws-cdk"]}


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


TEMPLATE: Mapping[str, Callable[[], str]] = {
    f"{FOLDER}/cdk.json": lambda: _cdk(app=APP),
    f"{FOLDER}/package.json": lambda: _changed(
        "package.json", name=SERVICE, devDependencies=_cdk_cli()
    ),
    f"{FOLDER}/package-lock.json": _lock,
    # Every alarm's description names a section of it.
    f"{FOLDER}/docs/runbook.md": lambda: _text("docs/runbook.md"),
    # docs/security.md says `extends = "secure-base"`; a file extends only what lies beside it.
    f"{FOLDER}/environments/secure-base.toml": lambda: _text("environments/secure-base.toml"),
}

GENERATED: dict[str, Callable[[], str]] = {
    "cdk.json": _cdk,
    "environments/schema.json": reference.json_schema,
    "docs/reference/parameters.md": reference.markdown,
    "docs/reference/permissions.md": write_permissions,
    "docs/reference/rules.md": write_rules,
    "docs/reference/commands.md": write_commands,
    "docs/reference/constructs.md": write_constructs,
    "docs/local-aws.md": lambda: with_table("docs/local-aws.md", list_local_services()),
    "docs/scaling-rules.md": lambda: with_table("docs/scaling-rules.md", assumptions()),
    "packages/servable-runtime/servable_tensors/descriptors.base64": descriptor_set,
    **TEMPLATE,
}


def stale(root: Path, wanted: Mapping[str, str]) -> list[str]:
    """Files below `root` that are not there, or are not as their source would write them now."""
    return [
        name
        for name, text in wanted.items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str], root: Path = ROOT) -> str | None:
    """Writes or compares all files; a problem in words, or None."""
    wanted = {name: text() for name, text in GENERATED.items()}
    found = stale(root, wanted)
    if "--check" in arguments:
        return f"stale: {', '.join(found)}; run: python scripts/generate.py" if found else None
    for one in found:
        (root / one).write_text(wanted[one], encoding="utf-8")
        print(f"{one}: written")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
