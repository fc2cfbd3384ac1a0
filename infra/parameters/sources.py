"""Read an environment file and its bases: which file every value came from, and the line that sets a key."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra.parameters.finding import Finding, file_error, meant
from infra.parameters.spellings import (
    KeyPath,
    container_tables,
    find_set_twice,
    other_spellings,
    rename_variables,
)
from infra.policy.container import SETTINGS, ContainerSettings, read_environment


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
        """Sets a value or a table, and records the origin of all keys in it."""
        into = self.values
        for at, name in enumerate(key[:-1], start=1):
            if not isinstance(into.get(name), dict):
                into[name] = {}
                self._forget(key[:at])
                self.origins[key[:at]] = origin
            into = into[name]
        self._forget(key)
        into[key[-1]] = value
        self.origins[key] = origin

    def take_out(self, key: KeyPath) -> None:
        """Remove a value, if it is there."""
        into: Any = self.values
        for name in key[:-1]:
            into = into.get(name) if isinstance(into, dict) else None
        if isinstance(into, dict):
            into.pop(key[-1], None)
        self._forget(key)

    def take_out_other_spellings(self, key: KeyPath, value: Any, *, whole: bool = False) -> None:
        """Remove what earlier files state in the other spelling, where `key` is about to replace it."""
        for other in other_spellings(key, value, whole=whole):
            self.take_out(other)

    def name_variable(self, finding: Finding) -> Finding:
        """Return the finding with the variable that states its key, if one does."""
        return replace(finding, variable=self.variables.get(tuple(finding.key.split(".")), ""))

    def read_environments(self) -> None:
        """Turn the variables of the containers into keys, after all files and overrides are merged."""
        for table, values in container_tables(self.values):
            container, environment = values.get("container", {}), values.get("environment")
            batching = container.get("batching") if isinstance(container, dict) else container
            if not isinstance(batching, dict | None) or not isinstance(environment, dict):
                continue  # the validation rejects it
            texts = {name: text for name, text in environment.items() if isinstance(text, str)}
            own, settings = read_environment(texts, batching=batching is not None)
            for name in sorted(texts.keys() - own.keys(), key=SETTINGS.__getitem__):
                written, setting = (*table, "environment", name), SETTINGS[name]
                key = (*table, "container", *setting.split("."))
                origin = self.origin(written, "")
                self.take_out(written)
                if setting in settings:
                    self.variables[key] = name
                    if settings[setting] != {} or batching is None:
                        self.put(key, settings[setting], origin)
            if texts and not environment:
                self.take_out((*table, "environment"))

    def _forget(self, key: KeyPath) -> None:
        for inner in [origin for origin in self.origins if origin[: len(key)] == key]:
            del self.origins[inner]

    def origin(self, key: KeyPath, otherwise: str) -> str:
        """The file that set `key`, or the table around it; else `otherwise`."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = key[:-1]
        return otherwise


def read_pasted(given: Any) -> Any:
    """Return a table's values, as a construct gets them, with the container's variables as keys.

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
    for finding in find_set_twice(source.values, ""):
        raise ValueError(finding.problem + "; " + finding.remedy)
    source.read_environments()
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
    """Whether a file is a base (`base` or `…-base`), which others extend and which is not deployed."""
    return name == "base" or name.endswith("-base")


def names(folder: Path) -> list[str]:
    """Names of all environments of a folder, sorted."""
    return sorted(file.stem for file in folder.glob("*.toml") if not is_base(file.stem))


def shown_path(path: Path, root: Path) -> str:
    """The path as messages name it: relative to the project, or whole if it is elsewhere."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def read(root: Path, folder: Path, name: str, seen: tuple[str, ...] = ()) -> Source:
    """Reads `folder/name.toml` merged over its bases. Only tables merge, key by key.

    `seen` are the files that extend this one.
    """
    file = folder / f"{name}.toml"
    shown = shown_path(file, root)
    try:
        # -sig: some editors write a byte-order mark, which is not the user's mistake.
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as wrong:
        remedy = _correct_line(file, str(wrong))
        return Source(findings=[file_error(shown, "", f"not TOML: {wrong}", remedy)])
    except UnicodeDecodeError as wrong:
        return Source(findings=[file_error(shown, "", f"not UTF-8: {wrong}", "save it as UTF-8")])
    except OSError as wrong:
        problem = f"cannot be read: {wrong.strerror}"
        return Source(findings=[file_error(shown, "", problem, "make it readable")])
    spelling = [*rename_variables(values, shown), *find_set_twice(values, shown)]
    base, seen = values.pop("extends", None), (*seen, name)
    stems = set() if base is None else {file.stem for file in folder.glob("*.toml")}
    others = sorted(stems - set(seen))
    if base is None:
        source = Source()
    elif base in others:
        source = read(root, folder, base, seen)
    else:
        problem, remedy = f"there is no file {base!r} in {folder.name}/", meant(str(base), others)
        if base in seen:
            problem = f"{base!r} extends itself: {' -> '.join((*seen, base))}"
            remedy = "break the circle"
        allowed = ", ".join(others) or "nothing: there is no other file"
        error = file_error(shown, "extends", problem, remedy, given=base, allowed=allowed)
        source = Source(findings=[error])
    source.spelling += spelling
    _merge(source, values, shown, ())
    return source


def _correct_line(file: Path, problem: str) -> str:
    """Return how to correct the line that tomllib names: most often a string lacks its quotes."""
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
    into = source.values
    for key in at:
        into = into[key]
    for key, value in values.items():
        here = (*at, key)
        source.take_out_other_spellings(here, value)
        if not isinstance(value, dict):
            source.put(here, value, file)
            continue
        if not isinstance(into.get(key), dict):
            source.put(here, {}, file)
        _merge(source, value, file, here)


def line_number(file: Path, key: str) -> int | None:
    """Return the line of a dotted key, or of the nearest table around it; None if neither is there."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):  # an option, which gave the value; a file that is no text
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
