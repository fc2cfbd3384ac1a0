"""Reads an environment file and its bases, and records which file every value came from."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infra.parameters.finding import Finding, file_error, meant

KeyPath = tuple[str, ...]


@dataclass
class Source:
    """The merged values of a file and its bases, and the file that each value came from."""

    values: dict[str, Any] = field(default_factory=dict)
    origins: dict[KeyPath, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

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

    def _forget(self, key: KeyPath) -> None:
        for known in [origin for origin in self.origins if origin[: len(key)] == key]:
            del self.origins[known]

    def origin(self, key: KeyPath, otherwise: str) -> str:
        """The file that set `key`, or the table around it; else `otherwise`."""
        while key:
            if key in self.origins:
                return self.origins[key]
            key = key[:-1]
        return otherwise


def is_base(name: str) -> bool:
    """Whether a file is a base (`base` or `…-base`), which others extend and which is not deployed."""
    return name == "base" or name.endswith("-base")


def names(folder: Path) -> list[str]:
    """Names of all environments of a folder, sorted."""
    return sorted(file.stem for file in folder.glob("*.toml") if not is_base(file.stem))


def read(root: Path, folder: Path, name: str, seen: tuple[str, ...] = ()) -> Source:
    """Reads `folder/name.toml` merged over its bases. Only tables merge, key by key."""
    file = folder / f"{name}.toml"
    shown = file.relative_to(root).as_posix() if file.is_relative_to(root) else file.as_posix()
    try:
        # -sig: some editors write a byte-order mark, which is not the user's mistake.
        values = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as wrong:
        return Source(findings=[file_error(shown, "", f"not TOML: {wrong}", "correct that line")])
    except OSError as wrong:
        return Source(
            findings=[
                file_error(shown, "", f"cannot be read: {wrong.strerror}", "make it readable")
            ]
        )
    source = Source()
    base = values.pop("extends", None)
    if base is not None:
        source = _read_base(root, folder, shown, base, (*seen, name))
    _merge(source, values, shown, ())
    return source


def _read_base(root: Path, folder: Path, shown: str, base: Any, seen: tuple[str, ...]) -> Source:
    others = sorted({file.stem for file in folder.glob("*.toml")} - set(seen))
    allowed = ", ".join(others) or "nothing: there is no other file"
    if base in seen:
        wrong = f"{base!r} extends itself: {' -> '.join((*seen, base))}"
        return Source(
            findings=[
                file_error(shown, "extends", wrong, "break the circle", given=base, allowed=allowed)
            ]
        )
    if base not in others:
        wrong = f"there is no file {base!r} in {folder.name}/"
        remedy = meant(str(base), others)
        return Source(
            findings=[file_error(shown, "extends", wrong, remedy, given=base, allowed=allowed)]
        )
    return read(root, folder, base, seen)


def _merge(source: Source, values: dict[str, Any], file: str, at: KeyPath) -> None:
    into = source.values
    for key in at:
        into = into[key]
    for key, value in values.items():
        here = (*at, key)
        if not isinstance(value, dict):
            source.put(here, value, file)
            continue
        if not isinstance(into.get(key), dict):
            source.put(here, {}, file)
        _merge(source, value, file, here)
