"""Read an environment file and its bases: which file every value came from, and the line that sets a key."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra.parameters.finding import Finding, build_file_error, suggest_name
from infra.parameters.spellings import (
    KeyPath,
    find_container_tables,
    find_duplicate_settings,
    find_other_spellings,
    find_value,
    rename_variables,
)
from infra.policy.container import SETTINGS, ContainerSettings, split_environment


@dataclass
class Source:
    """The merged values of a file and its bases, and the file that each value came from."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    """Errors of files that cannot be read."""
    spelling: list[Finding] = field(default_factory=list)
    """Findings about old names, and about settings that one file states twice."""
    variables: dict[KeyPath, str] = field(default_factory=dict)
    """Key of a container's setting to the variable that states it."""

    def put(self, key: KeyPath, value: Any, origin: str) -> None:
        """Set a value or a table, and record the origin of all keys in it."""
        into = self.values
        for at, name in enumerate(key[:-1], start=1):
            if not isinstance(into.get(name), dict):
                into[name] = {}
                self._forget_origins(key[:at])
                self.origins[key[:at]] = origin
            into = into[name]
        self._forget_origins(key)
        into[key[-1]] = value
        self.origins[key] = origin

    def remove(self, key: KeyPath) -> None:
        """Remove a value, if it exists."""
        into = find_value(self.values, key[:-1])
        if isinstance(into, dict):
            into.pop(key[-1], None)
        self._forget_origins(key)

    def remove_other_spellings(self, key: KeyPath, value: Any, *, whole: bool = False) -> None:
        """Remove values of earlier files in the other spelling of `key`, which replaces them."""
        for other in find_other_spellings(key, value, whole=whole):
            self.remove(other)

    def attach_variable(self, finding: Finding) -> Finding:
        """Return the finding with the variable that states its key, if there is one."""
        return replace(finding, variable=self.variables.get(tuple(finding.key.split(".")), ""))

    def convert_variables(self) -> None:
        """Convert the containers' variables to keys, after all files and overrides are merged."""
        for table, values in find_container_tables(self.values):
            container, environment = values.get("container", {}), values.get("environment")
            batching = container.get("batching") if isinstance(container, dict) else container
            if not isinstance(batching, dict | None) or not isinstance(environment, dict):
                continue  # the validation rejects it
            texts = {name: text for name, text in environment.items() if isinstance(text, str)}
            own, settings = split_environment(texts, batching=batching is not None)
            for name in sorted(texts.keys() - own.keys(), key=SETTINGS.__getitem__):
                written, setting = (*table, "environment", name), SETTINGS[name]
                key = (*table, "container", *setting.split("."))
                origin = self.find_origin(written, "")
                self.remove(written)
                if setting in settings:
                    self.variables[key] = name
                    if settings[setting] != {} or batching is None:
                        self.put(key, settings[setting], origin)
            if texts and not environment:
                self.remove((*table, "environment"))

    def _forget_origins(self, key: KeyPath) -> None:
        for inner in [origin for origin in self.origins if origin[: len(key)] == key]:
            del self.origins[inner]

    def find_origin(self, key: KeyPath, otherwise: str) -> str:
        """Return the file that set `key` or the table around it, or `otherwise`."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = key[:-1]
        return otherwise


def convert_table_variables(given: Any) -> Any:
    """Return a construct's table with the container's variables as keys.

    Raises ValueError for a value that its key can't hold, and for a setting that is stated twice.
    """
    environment = given.get("environment") if isinstance(given, dict) else None
    if not isinstance(environment, Mapping) or not SETTINGS.keys() & environment.keys():
        return given
    container = given.get("container", {})
    if isinstance(container, ContainerSettings):
        container = container.model_dump(exclude_unset=True, exclude_none=True)
    table = {**given, "environment": dict(environment), "container": container}
    source = Source(values={"batch": {"given": table}})
    for finding in find_duplicate_settings(source.values, ""):
        raise ValueError(finding.problem + "; " + finding.remedy)
    source.convert_variables()
    try:
        ContainerSettings.model_validate(container)
    except ValidationError as wrong:
        for error in wrong.errors():
            key = ("batch", "given", "container", *map(str, error["loc"]))
            if variable := source.variables.get(key):
                text = f"environment.{variable}: {environment[variable]!r}: {error['msg']}"
                raise ValueError(text) from None
    return table


def is_base(name: str) -> bool:
    """Return whether a file is a base (`base` or `…-base`), which is extended, not deployed."""
    return name == "base" or name.endswith("-base")


def list_environment_names(folder: Path) -> list[str]:
    """Return the names of all environments of a folder, sorted."""
    return sorted(file.stem for file in folder.glob("*.toml") if not is_base(file.stem))


def format_path(path: Path, root: Path) -> str:
    """Return the path for messages: relative to the project, or absolute if it is outside."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def read_source(root: Path, folder: Path, name: str, seen: tuple[str, ...] = ()) -> Source:
    """Read `folder/name.toml` merged over its bases. Only tables merge, key by key.

    `seen` has the files that extend this one.
    """
    file = folder / f"{name}.toml"
    shown = format_path(file, root)
    try:
        # -sig: some editors write a byte-order mark, which is not the user's mistake.
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as wrong:
        remedy = _suggest_line_fix(file, str(wrong))
        return Source(findings=[build_file_error(shown, "", f"not TOML: {wrong}", remedy)])
    except UnicodeDecodeError as wrong:
        error = build_file_error(shown, "", f"not UTF-8: {wrong}", "save it as UTF-8")
        return Source(findings=[error])
    except OSError as wrong:
        problem = f"cannot be read: {wrong.strerror}"
        return Source(findings=[build_file_error(shown, "", problem, "make it readable")])
    spelling = [*rename_variables(values, shown), *find_duplicate_settings(values, shown)]
    base, seen = values.pop("extends", None), (*seen, name)
    stems = set() if base is None else {file.stem for file in folder.glob("*.toml")}
    others = sorted(stems - set(seen))
    if base is None:
        source = Source()
    elif base in others:
        source = read_source(root, folder, base, seen)
    else:
        problem, remedy = (
            f"there is no file {base!r} in {folder.name}/",
            suggest_name(str(base), others),
        )
        if base in seen:
            problem = f"{base!r} extends itself: {' -> '.join((*seen, base))}"
            remedy = "remove the circular reference"
        allowed = ", ".join(others) or "none: there is no other file"
        error = build_file_error(shown, "extends", problem, remedy, given=base, allowed=allowed)
        source = Source(findings=[error])
    source.spelling += spelling
    _merge(source, values, shown, ())
    return source


def _suggest_line_fix(file: Path, problem: str) -> str:
    """Return how to correct the line that tomllib names. Often, a string lacks its quotes."""
    found = re.search(r"at line (\d+)", problem)
    line = file.read_text(encoding="utf-8-sig").split("\n")[int(found[1]) - 1] if found else ""
    written = re.match(r"""\s*([\w.-]+)\s*=\s*([^\s"'#\[\]{},]+)\s*(?:#.*)?$""", line)
    if written is None:
        return "correct that line"
    key, value = written.groups()
    if value.lower() in ("true", "false"):
        return f"write {key} = {value.lower()}"
    number = ", or leave out the leading zeros of a number" if value.isdigit() else ""
    return f'quote it: {key} = "{value}"{number}'


def _merge(source: Source, values: dict[str, Any], file: str, at: KeyPath) -> None:
    into = find_value(source.values, at)
    for key, value in values.items():
        here = (*at, key)
        source.remove_other_spellings(here, value)
        if not isinstance(value, dict):
            source.put(here, value, file)
            continue
        if not isinstance(into.get(key), dict):
            source.put(here, {}, file)
        _merge(source, value, file, here)


def find_line_number(file: Path, key: str) -> int | None:
    """Return the line of a dotted key, or of the nearest table around it, or None."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):  # an option, which gave the value; a file that isn't text
        return None
    line, most, header, statement, begin = None, 0, "", "", 1
    for number, part in enumerate(text.split("\n"), start=1):  # splitlines splits elsewhere, too
        statement += f"{part}\n"
        heads = statement.lstrip().startswith("[")
        try:
            values: Any = tomllib.loads(statement if heads else header + statement)
        except tomllib.TOMLDecodeError:
            continue  # it goes on in the next line
        depth = 0
        for name in key.split("."):
            if not isinstance(values, dict) or name not in values:
                break
            values, depth = values[name], depth + 1
        if depth > most:
            line, most = begin, depth
        header = statement if heads else header
        statement, begin = "", number + 1
    return line
