"""The files of `servable new` that are this repository's own but for a name."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "servable/new/template"
CONFORMANCE = ".github/workflows/conformance.yml"
SERVICE = "@service@"  # exchanged for the service's name when a project is written
# The virtual environment of the project before any other, as in this repository. A console script:
# a folder `stacks` or `infra` of the project does not shadow ours.
APP = 'PATH=".venv/bin:$PATH" servable-app'


def _changed(file: str, /, **values: str) -> str:
    """A JSON file of this repository with other values."""
    return json.dumps({**json.loads(_text(file)), **values}, indent=2) + "\n"


def _lock() -> str:
    """With the version and the hash of the CDK CLI, and no registry's address."""
    lock = {**json.loads(_text("package-lock.json")), "name": SERVICE}
    lock["packages"][""]["name"] = SERVICE
    return json.dumps(lock, indent=2) + "\n"


def _conformance() -> str:
    """Elsewhere what makes the models is installed from the project's own wheels."""
    text = _text(CONFORMANCE)
    ours = "run: make .venv/.local\n"
    install = ".venv/bin/python -m pip install --quiet --find-links wheels"
    lines = ("run: |", "python -m venv .venv", f'{install} "servable[aws,local]==@version@"')
    theirs = "\n          ".join(lines) + "\n"
    if text.count(ours) != 1:
        raise RuntimeError(f"{CONFORMANCE}: `{ours.strip()}` is not there once; mend it here, too")
    return text.replace(ours, theirs).replace("; docs/pipelines.md.", ".")


def _text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


TEMPLATE: Mapping[str, Callable[[], str]] = {
    f"{FOLDER}/cdk.json": lambda: _changed("cdk.json", app=APP),
    f"{FOLDER}/package.json": lambda: _changed("package.json", name=SERVICE),
    f"{FOLDER}/package-lock.json": _lock,
    # Every alarm's description names a section of it.
    f"{FOLDER}/docs/runbook.md": lambda: _text("docs/runbook.md"),
    # docs/security.md says `extends = "secure-base"`; a file extends only what lies beside it.
    f"{FOLDER}/environments/secure-base.toml": lambda: _text("environments/secure-base.toml"),
    f"{FOLDER}/dot-github/workflows/conformance.yml": _conformance,
}
