"""Writes the generated files; with --check, reports which are stale and exits with code 1.

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
from infra.preflight.reference import render_permissions, render_rules
from scripts.documentation import reference_pages
from scripts.documentation.reference_pages import list_local_services
from servable import __version__
from servable.new.project_files import STAMP

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "packages/servable-runtime/servable_tensors"
FOLDER = "servable/new/template"
SERVICE = "@service@"  # exchanged for the service's name when a project is written
# The project's virtual environment comes first. With a console script, a folder `stacks` or `infra` of
# the project doesn't hide ours.
APP = 'PATH=".venv/bin:$PATH" servable-app'


def fill_table(page: str, rows: Iterable[Sequence[str]]) -> str:
    """Return the text of a page, with these rows in its only table."""
    text = _read_text(page)
    head, rule, rest = re.split(r"^(\|[-:|]+\|\n)", text, flags=re.MULTILINE)
    _, end, tail = rest.partition("\n\n")
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return head + rule + table + (end + tail or "\n")


def list_assumptions() -> Iterator[tuple[str, ...]]:
    """Yield (file, observed or chosen, text, number below it) of servable_scaling's assumptions."""
    comment = r"(?m)^ *# (Observed|Chosen): (.+(?:\n *# .+)*)\n(?:.* = ([\d.]+),?$)?"
    for file in sorted(ROOT.glob("packages/servable-scaling/servable_scaling/**/*.py")):
        for kind, text, number in re.findall(comment, file.read_text(encoding="utf-8")):
            yield f"`{file.name}`", kind.lower(), re.sub(r"\n *#", "", text).rstrip("."), number


def build_descriptor_set() -> str:
    """Return a FileDescriptorSet of the .proto files and their imports, in base64. Raises `RuntimeError`."""
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
            raise RuntimeError(f"protoc can't compile the files in {PROTOS}; see its output above")
        return base64.encodebytes(result.read_bytes()).decode()


def _replace_values(file: str, /, **values: object) -> str:
    """Return a JSON file of this repository with other values."""
    return json.dumps({**json.loads(_read_text(file)), **values}, indent=2) + "\n"


def _render_cdk_json(**values: str) -> str:
    """Return cdk.json with the version that `servable doctor` compares."""
    context = json.loads(_read_text("cdk.json"))["context"]
    return _replace_values("cdk.json", context={**context, STAMP: __version__}, **values)


def _render_package_lock() -> str:
    """Return package-lock.json with the CDK CLI's version and hash alone, without an address."""
    lock = {**json.loads(_read_text("package-lock.json")), "name": SERVICE}
    root = {**lock["packages"][""], "name": SERVICE, "devDependencies": _find_cdk_cli()}
    cli = "node_modules/aws-cdk"
    lock["packages"] = {"": root, cli: lock["packages"][cli]}
    return json.dumps(lock, indent=2) + "\n"


def _find_cdk_cli() -> dict[str, str]:
    """Return the CDK CLI's version; the npm packages of this repository's tests aren't included."""
    return {"aws-cdk": json.loads(_read_text("package.json"))["devDependencies"]["aws-cdk"]}


def _read_text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


TEMPLATE: Mapping[str, Callable[[], str]] = {
    f"{FOLDER}/cdk.json": lambda: _render_cdk_json(app=APP),
    f"{FOLDER}/package.json": lambda: _replace_values(
        "package.json", name=SERVICE, devDependencies=_find_cdk_cli()
    ),
    f"{FOLDER}/package-lock.json": _render_package_lock,
    # Every alarm's description names a section of it.
    f"{FOLDER}/docs/runbook.md": lambda: _read_text("docs/runbook.md"),
    # docs/security.md says `extends = "secure-base"`; a file extends only files next to it.
    f"{FOLDER}/environments/secure-base.toml": lambda: _read_text("environments/secure-base.toml"),
}

GENERATED: dict[str, Callable[[], str]] = {
    "cdk.json": _render_cdk_json,
    "environments/schema.json": reference.build_json_schema,
    "docs/reference/parameters.md": reference.render_markdown,
    "docs/reference/permissions.md": render_permissions,
    "docs/reference/rules.md": render_rules,
    "docs/reference/commands.md": reference_pages.render_commands,
    "docs/reference/constructs.md": reference_pages.render_constructs,
    "docs/local-aws.md": lambda: fill_table("docs/local-aws.md", list_local_services()),
    "docs/scaling-rules.md": lambda: fill_table("docs/scaling-rules.md", list_assumptions()),
    "packages/servable-runtime/servable_tensors/descriptors.base64": build_descriptor_set,
    **TEMPLATE,
}


def find_stale_files(root: Path, wanted: Mapping[str, str]) -> list[str]:
    """Return the files below `root` that are missing or outdated."""
    return [
        name
        for name, text in wanted.items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str], root: Path = ROOT) -> str | None:
    """Write or compare all files, and return a problem as text, or None."""
    wanted = {name: text() for name, text in GENERATED.items()}
    found = find_stale_files(root, wanted)
    if "--check" in arguments:
        return f"stale: {', '.join(found)}; run: python scripts/generate.py" if found else None
    for one in found:
        (root / one).write_text(wanted[one], encoding="utf-8")
        print(f"{one}: written")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
