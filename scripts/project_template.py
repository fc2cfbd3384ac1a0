"""The files of `servable new` that are this repository's own but for a name."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "servable/new/template"
CONFORMANCE = ".github/workflows/conformance.yml"
SERVICE = "@service@"  # exchanged for the service's name when a project is written
# The virtual environment of the project before any other, as in this repository. A console script:
# a folder `stacks` or `infra` of the project does not shadow ours.
APP = 'PATH=".venv/bin:$PATH" servable-app'


def _cdk() -> str:
    return _text({**_read("cdk.json"), "app": APP})


def _package() -> str:
    return _text({**_read("package.json"), "name": SERVICE})


def _lock() -> str:
    """With the version and the hash of the CDK CLI, and no registry's address."""
    found = {**_read("package-lock.json"), "name": SERVICE}
    found["packages"][""]["name"] = SERVICE
    return _text(found)


def _runbook() -> str:
    """Every alarm's description names a section of it."""
    return (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")


def _secure_base() -> str:
    """docs/security.md says `extends = "secure-base"`; a file extends only what lies beside it."""
    return (ROOT / "environments" / "secure-base.toml").read_text(encoding="utf-8")


def _conformance() -> str:
    """Elsewhere what makes the models is installed from the project's own wheels."""
    text = (ROOT / CONFORMANCE).read_text(encoding="utf-8")
    ours = "run: make .venv/.local\n"
    install = ".venv/bin/python -m pip install --quiet --find-links wheels"
    lines = ("run: |", "python -m venv .venv", f'{install} "servable[aws,local]==@version@"')
    theirs = "\n          ".join(lines) + "\n"
    if text.count(ours) != 1:
        raise RuntimeError(f"{CONFORMANCE}: `{ours.strip()}` is not there once; mend it here, too")
    return text.replace(ours, theirs).replace("; docs/pipelines.md.", ".")


TEMPLATE: Mapping[str, Callable[[], str]] = {
    f"{FOLDER}/cdk.json": _cdk,
    f"{FOLDER}/package.json": _package,
    f"{FOLDER}/package-lock.json": _lock,
    f"{FOLDER}/docs/runbook.md": _runbook,
    f"{FOLDER}/environments/secure-base.toml": _secure_base,
    f"{FOLDER}/dot-github/workflows/conformance.yml": _conformance,
}


def _read(name: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    return parsed


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2) + "\n"
