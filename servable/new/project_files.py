"""The files of a project besides its environments: names, texts, and the writer's version."""

import csv
import errno
import io
import json
import os
import re
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from infra.parameters import reference
from model_packaging.beside import write_atomically
from servable import __version__
from servable.project.environments import find_cdk_command
from servable.project.folder import FOLDER

# Partly generated from this repository's files. A leading dot is spelled "dot-", so that no tool reads
# the template's files as its own.
TEMPLATE = Path(__file__).with_name("template")
BASE, SCHEMA = f"{FOLDER}/base.toml", f"{FOLDER}/schema.json"
LOCK, PINS = "package-lock.json", "package.json"
# `servable` and `cdk` need these files in a folder; the others are for people and pipelines.
NEEDED = ("cdk.json", PINS, LOCK, "requirements.txt", ".gitignore", SCHEMA)
STAMP = "servable:version"
"""The key of cdk.json's context that says which version wrote the project's files."""
# The same pattern as in infra/parameters/environment.py; npm package names are in lower case.
SERVICE = r"[a-z][a-z0-9-]{0,62}"


def derive_service_name(folder: Path) -> str:
    """Return a service name derived from the folder's name."""
    name = re.sub(r"[^a-z0-9]+", "-", folder.resolve().name.lower()).strip("-")[:63].strip("-")
    return name if re.fullmatch(SERVICE, name) else f"service-{name}".rstrip("-")[:63]


def build_project_files(service: str) -> dict[str, str]:
    """Return every file that `servable new` writes, as path in the project -> text."""
    files = {}
    for file in sorted(path for path in TEMPLATE.rglob("*") if path.is_file()):
        name = re.sub(r"\bdot-", ".", file.relative_to(TEMPLATE).as_posix())
        text = file.read_text(encoding="utf-8")
        text = text.replace("@service@", service).replace("@version@", __version__)
        if "@sha256@" in text:  # of a release: scripts/build_wheels.py puts it there
            text = text.replace("@sha256@", compute_installed_sha256())
        files[name] = text
    return {**files, SCHEMA: reference.build_json_schema()}


def find_missing_files(root: Path) -> dict[str, str]:
    """Return the files that `servable` and `cdk` need and that a folder lacks, as path -> text.

    They include a base if there is no environment yet, and a lock file if no package.json exists.
    """
    every = build_project_files(derive_service_name(root))
    wanted = [name for name in NEEDED if not (root / name).exists()]
    if not any((root / FOLDER).glob("*.toml")):
        wanted.append(BASE)
    if PINS not in wanted and LOCK in wanted:
        wanted.remove(LOCK)
    return {name: every[name] for name in wanted}


def find_conflicts(root: Path, names: Iterable[str]) -> list[str]:
    """Return a line for every file that can't be written without changing an existing one."""
    problems = []
    for name in names:
        file = root / name
        above = next(parent for parent in file.parents if os.path.lexists(parent))
        if os.path.lexists(file):
            problems.append(f"{file}: exists already; move it away, or choose a different folder")
        elif not above.is_dir():
            problem = f"{above}: isn't a folder, so {name} can't be written into it"
            problems.append(f"{problem}; move it away")
        elif not os.access(above, os.W_OK | os.X_OK):
            problems.append(f"{above}: you can't write to this folder; choose a different one")
    return list(dict.fromkeys(problems))


def write_all(root: Path, files: Mapping[str, str]) -> None:
    """Write every file, or none; FileExistsError if one exists. Raises OSError."""
    written: list[Path] = []
    try:
        for name, text in files.items():
            file = root / name
            for folder in [parent for parent in reversed(file.parents) if not parent.exists()]:
                written.append(folder)
                folder.mkdir()
            if os.path.lexists(file):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file))
            written.append(file)
            write_atomically(file, text.encode())
    except BaseException:  # Ctrl-C too
        for path in reversed(written):
            with suppress(OSError):
                path.rmdir() if path.is_dir() else path.unlink()
        raise


def find_pinned_cli(root: Path) -> str | None:
    """Return the CDK CLI version that package.json pins, or None if it pins none."""
    package = _read_json(root / PINS)
    pin = {**package.get("dependencies", {}), **package.get("devDependencies", {})}.get("aws-cdk")
    return str(pin) if pin else None


def read_cdk_context(root: Path) -> dict[str, Any]:
    """Return the context that cdk.json passes to the app; empty if there is no cdk.json."""
    context: dict[str, Any] = _read_json(root / "cdk.json").get("context", {})
    return context


def read_writer_version(root: Path) -> str | None:
    """Return the version of servable that wrote the project's files, as cdk.json states it."""
    stamp = read_cdk_context(root).get(STAMP)
    return None if stamp is None else str(stamp)


def list_notes(root: Path) -> list[str]:
    """Return notes about existing files that keep `cdk deploy` from working."""
    notes = []
    runs = str(_read_json(root / "cdk.json").get("app", ""))
    if "servable-app" not in runs and "stacks" not in _read_text(root / "app.py"):
        deploy = f"{find_cdk_command()} deploy --app servable-app"
        notes.append(f"cdk.json runs {runs!r}; to deploy these environments, run `{deploy}`")
    if find_pinned_cli(root) is None:
        notes.append(f"{PINS} pins no CDK CLI: {_format_cli_step()}")
    return notes


def _format_cli_step() -> str:
    return f"`npm install --save-dev --save-exact aws-cdk@{find_pinned_cli(TEMPLATE)}`"


def list_upgrade_steps(root: Path) -> list[str]:
    """Return the steps that update the project's files to what this version writes."""
    steps = []
    if _read_text(root / SCHEMA) != reference.build_json_schema():
        steps.append(f"delete {SCHEMA} and run `servable init`, which recreates it")
    if find_pinned_cli(TEMPLATE) != find_pinned_cli(root):
        steps.append(_format_cli_step())
    stated = {STAMP, *read_cdk_context(root)}
    flags = [flag for flag in read_cdk_context(TEMPLATE) if flag not in stated]
    if flags:
        steps.append(f"decide whether to add these flags to cdk.json: {', '.join(flags)}")
    return steps


def is_base_extendable(root: Path, missing: Mapping[str, str]) -> bool:
    """Return whether the base is readable, extends no file, and defines no model or variant."""
    try:
        text = missing.get(BASE) or (root / BASE).read_text(encoding="utf-8-sig")
        return not {"models", "variants", "extends"} & set(tomllib.loads(text))
    except (OSError, ValueError):
        return False


def _read_text(file: Path) -> str:
    """Return a file's text, or "" if it can't be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""


def _read_json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(_read_text(file))
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


DISTRIBUTION = "servable-endpoints"
# Installers add others next to them.
_DESCRIPTION = {"METADATA", "WHEEL", "entry_points.txt", "top_level.txt", "LICENSE"}


def build_wheel(files: Mapping[str, bytes]) -> bytes:
    """Return the wheel of these files, with a newly written RECORD.

    Names and contents alone decide its bytes. The wheel isn't compressed: the bytes would depend
    on zlib's version. Building the wheel again from the installed files therefore gives the same
    hash. A wheel can't contain its own hash, and the requirements.txt of a new project needs it.
    """
    (metadata,) = (name for name in files if name.endswith(".dist-info/METADATA"))
    record = metadata.replace("METADATA", "RECORD")
    names = sorted({*files} - {record}, key=lambda name: (".dist-info/" in name, name))
    text, out = io.StringIO(), io.BytesIO()
    rows = csv.writer(text, lineterminator="\n")
    for name in names:
        digest = urlsafe_b64encode(sha256(files[name]).digest()).decode().rstrip("=")
        rows.writerow([name, f"sha256={digest}", len(files[name])])
    rows.writerow([record, "", ""])
    with zipfile.ZipFile(out, "w") as archive:
        for name in (*names, record):
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # as on Linux
            archive.writestr(entry, text.getvalue() if name == record else files[name])
    return out.getvalue()


def compute_installed_sha256() -> str:
    """Return the SHA-256 of the wheel that this command was installed from, by any installer."""
    files = {
        file.as_posix(): file.read_binary()
        for file in distribution(DISTRIBUTION).files or ()
        if not {"..", "__pycache__"} & {*file.parts}
        and (".dist-info" not in file.parts[0] or file.name in _DESCRIPTION)
    }
    return sha256(build_wheel(files)).hexdigest()
