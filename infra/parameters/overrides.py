"""Overrides: a key's value for one run, as in `-c prod.variants.primary.max_instances=12`."""

import tomllib
import typing
from collections.abc import Mapping
from typing import Any

from infra.parameters.container_environment import KeyPath, find_set_twice, rename_variables
from infra.parameters.finding import Finding, file_error, meant
from infra.parameters.shape import type_at
from infra.parameters.sources import Source
from infra.parameters.table import ProjectPath
from infra.policy.container import SETTINGS

# Tables whose inner tables have names that the file chooses: an override changes one, and never adds one.
NAMED = ("models", "variants")

Overrides = Mapping[str, Mapping[str, str]]
"""Environment to dotted key to value as typed on the command line."""


def from_options(options: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """The overrides in a CDK app's context: keys with a dot. CDK's own keys have a colon or a slash."""
    overrides: dict[str, dict[str, str]] = {}
    for option, value in options.items():
        environment, dot, key = option.partition(".")
        if dot and not set(option) & set(":/@") and isinstance(value, str):
            overrides.setdefault(environment, {})[key] = value
    return overrides


def strangers(overrides: Overrides, environments: list[str], option: str) -> list[Finding]:
    """A finding for every override whose environment does not exist and that would have no effect."""
    return [
        file_error(
            f"{option} {environment}.{key}",
            "",
            f"there is no environment {environment!r}",
            meant(environment, environments),
            given=environment,
            allowed=", ".join(environments),
        )
        for environment, keys in overrides.items()
        if environment not in environments
        for key in keys
    ]


def value(text: str, key: tuple[str, ...]) -> Any:
    """The text parsed as a TOML value; unchanged if it is none, or if the key takes a string."""
    try:
        parsed = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    kind = type_at(key)
    takes_text = kind in (str, ProjectPath) or (
        typing.get_origin(kind) is typing.Literal and isinstance(typing.get_args(kind)[0], str)
    )
    return text if takes_text and not isinstance(parsed, str) else parsed


def apply(
    source: Source, environment: str, overrides: Mapping[str, str], option: str
) -> list[Finding]:
    """Replaces values of the files by the overrides; their problems then name the option.

    No value takes the key out, as if no file had it, unless it is one of text.
    Returns a finding for each override that cannot apply: inside a model or variant that does not
    exist, or inside a value that another override gives.
    """
    problems: list[Finding] = []
    layer = Source()
    for dotted, text in overrides.items():
        origin = f"{option} {environment}.{dotted}"
        key, given, old = _read(tuple(dotted.split(".")), text, origin)
        problem = _not_meant(source, key, origin, option)
        problems += old if problem is None else [problem]
        if problem is not None:
            continue
        layer.put(key, given, origin)
        source.take_out_other_spellings(key, given, whole=True)
        is_setting = key[-2:-1] == ("environment",) and key[-1] in SETTINGS
        if not text and (is_setting or type_at(key) not in (str, ProjectPath)):
            source.take_out(key)
        else:
            source.put(key, given, origin)
    return problems + find_set_twice(layer.values, f"{option} {environment}")


def _read(key: KeyPath, text: str, origin: str) -> tuple[KeyPath, Any, list[Finding]]:
    """Return (key, value, findings) of an override, with the present names of renamed keys."""
    inside: Any = value(text, key)
    for name in reversed(key):
        inside = {name: inside}
    findings = rename_variables(inside, origin)
    present = []
    for _ in key:
        ((name, inside),) = inside.items()
        present.append(name)
    return tuple(present), inside, findings


def _not_meant(source: Source, key: tuple[str, ...], origin: str, option: str) -> Finding | None:
    above: Any = source.values
    for at, name in enumerate(key[:-1], start=1):
        inside = above.get(name)
        if at == 2 and key[0] in NAMED and inside is None:
            return _finding(origin, key, f"there is no {'.'.join(key[:2])}", sorted(above), name)
        if inside is None:
            return None
        if not isinstance(inside, dict):
            other = source.origin(key[:at], "")
            if other.startswith(option):
                return _finding(origin, key, f"collides with {other}", [], name)
            return None
        above = inside
    return None


def _finding(
    origin: str, key: tuple[str, ...], problem: str, choices: list[str], name: str
) -> Finding:
    remedy = meant(name, choices) if choices else "give one of them"
    return file_error(
        origin, ".".join(key), problem, remedy, given=name, allowed=", ".join(choices)
    )
