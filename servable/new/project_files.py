"""What a project consists of beside its environments: which files, their text, their version."""

import errno
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from infra.parameters import reference
from model_packaging.beside import beside
from servable.project_folder import FOLDER

# Generated from this repository's own files and written by hand; names that begin with a dot say so
# in words, so that no tool takes them for its own.
TEMPLATE = Path(__file__).with_name("template")
BASE, SCHEMA = f"{FOLDER}/base.toml", f"{FOLDER}/schema.json"
LOCK, PINS = "package-lock.json", "package.json"
# Without these `servable` and `cdk` do not work in a folder; the others are for people and pipelines.
NEEDED = ("cdk.json", PINS, LOCK, "requirements.txt", ".gitignore", SCHEMA)
STAMP = "servable:version"
"""The key of cdk.json's context that says which version wrote the project's files."""
# As infra/parameters/environment.py has it; an npm package's name is in lower case.
SERVICE = r"[a-z][a-z0-9-]{0,62}"


def service_name(folder: Path) -> str:
    """A name for the service, made of the folder's."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:63].strip("-")
    return name if re.fullmatch(SERVICE, name) else f"service-{name}".rstrip("-")[:63]


def project_files(service: str) -> dict[str, str]:
    """Path in the project -> text, of everything that `servable new` writes."""
    found = {}
    for file in sorted(one for one in TEMPLATE.rglob("*") if one.is_file()):
        name = re.sub(r"\bdot-", ".", file.relative_to(TEMPLATE).as_posix())
        text = file.read_text(encoding="utf-8")
        found[name] = text.replace("@service@", service).replace("@version@", version("servable"))
    return {**found, SCHEMA: reference.json_schema()}


def missing_files(root: Path, service: str) -> dict[str, str]:
    """Those that a folder lacks of what `servable` and `cdk` need there.

    A base where there is no environment yet, and a lock where nobody else pins anything.
    """
    every = project_files(service)
    wanted = [name for name in NEEDED if not (root / name).exists()]
    if not any((root / FOLDER).glob("*.toml")):
        wanted.append(BASE)
    if PINS not in wanted and LOCK in wanted:
        wanted.remove(LOCK)
    return {name: every[name] for name in wanted}


def conflicts(root: Path, names: Iterable[str]) -> list[str]:
    """A line for every file that cannot be written without touching what is there."""
    found = []
    for name in names:
        file = root / name
        above = next(one for one in file.parents if os.path.lexists(one))
        if os.path.lexists(file):
            found.append(f"{file}: is there already; move it away, or take another folder")
        elif not above.is_dir():
            found.append(f"{above}: is no folder; {name} would be written into it: move it away")
        elif not os.access(above, os.W_OK | os.X_OK):
            found.append(f"{above}: this user may not write there; take another folder")
    return list(dict.fromkeys(found))


def write_all(root: Path, files: Mapping[str, str]) -> None:
    """Writes every file, or none: whatever goes wrong, what was written is taken back.

    Raises OSError, FileExistsError where one of them is there.
    """
    written: list[Path] = []
    try:
        for name, text in files.items():
            file = root / name
            for folder in [one for one in reversed(file.parents) if not one.exists()]:
                written.append(folder)
                folder.mkdir()
            if os.path.lexists(file):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
            written.append(file)
            with beside(file) as to:
                to.write(text.encode())
    except BaseException:  # Ctrl-C too
        for one in reversed(written):
            with suppress(OSError):
                one.rmdir() if one.is_dir() else one.unlink()
        raise


def pinned_cli(root: Path) -> str | None:
    """The version of the CDK CLI that package.json pins; None where it pins none."""
    told = _json(root / PINS)
    pin = {**told.get("dependencies", {}), **told.get("devDependencies", {})}.get("aws-cdk")
    return str(pin) if pin else None


def written_by(root: Path) -> str | None:
    """The version of servable that wrote the project's files, as they say."""
    said = _json(root / "cdk.json").get("context", {}).get(STAMP)
    return None if said is None else str(said)


def notes_on(root: Path) -> list[str]:
    """What keeps `cdk deploy` from working with files that somebody else wrote."""
    found = []
    runs = str(_json(root / "cdk.json").get("app", ""))
    if "servable-app" not in runs and not _mentions(root / "app.py", "stacks"):
        found.append(
            f"cdk.json runs {runs!r}; for these environments: `cdk deploy --app servable-app`"
        )
    if pinned_cli(root) is None:
        wanted = pinned_cli(TEMPLATE)
        found.append(
            f"{PINS} pins no CDK CLI: `npm install --save-dev --save-exact aws-cdk@{wanted}`"
        )
    return found


def to_change(root: Path) -> list[str]:
    """What differs from the files that this version writes, as steps for a person."""
    now, steps = _json(TEMPLATE / "cdk.json"), []
    if not _same_text(root / SCHEMA, reference.json_schema()):
        steps.append(f"delete {SCHEMA} and run `servable init`, which writes it anew")
    if (wanted := pinned_cli(TEMPLATE)) != pinned_cli(root):
        steps.append(f"`npm install --save-dev --save-exact aws-cdk@{wanted}`")
    context = _json(root / "cdk.json").get("context", {})
    flags = [one for one in now["context"] if one != STAMP and one not in context]
    if flags:
        steps.append(f"look whether you want these flags in cdk.json: {', '.join(flags)}")
    return steps


def extendable(root: Path, missing: Mapping[str, str]) -> bool:
    """Whether the project's base, or the one that is to be written, holds nothing of a model."""
    try:
        text = missing.get(BASE) or (root / BASE).read_text(encoding="utf-8-sig")
        return not {"models", "variants", "extends"} & set(tomllib.loads(text))
    except (OSError, ValueError):
        return False


def _mentions(file: Path, word: str) -> bool:
    try:
        return word in file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _same_text(file: Path, text: str) -> bool:
    try:
        return file.read_text(encoding="utf-8") == text
    except (OSError, ValueError):
        return False


def _json(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
