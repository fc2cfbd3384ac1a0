"""Overrides: values of keys for one run, as in `-c prod.variants.primary.max_instances=12`."""

import json
import re
import tomllib
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.parameters.finding import Finding, build_file_error, suggest_name
from infra.parameters.keys import find_type, unwrap_type
from infra.parameters.sources import Source
from infra.parameters.spellings import (
    KeyPath,
    find_duplicate_settings,
    find_value,
    rename_variables,
)
from infra.parameters.table import ProjectPath
from infra.policy.container import SETTINGS

# Tables whose inner tables have names that the file chooses: an override changes one, and never adds one.
NAMED = ("models", "variants")

# A part of a dotted key: in quotes, or without a dot.
_PART = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'[^'\n]*')|[^."'][^.]*""")

Overrides = Mapping[str, Mapping[str, str]]
"""Environment to dotted key to value as typed on the command line."""


def from_options(options: Mapping[str, object]) -> dict[str, dict[str, str]]:
    """Return the overrides in a CDK app's context: the keys with a dot, but not CDK's own.

    A key of CDK's own has a colon, a slash, or an @ before its first dot.
    """
    overrides: dict[str, dict[str, str]] = {}
    for option, given in options.items():
        environment, dot, key = option.partition(".")
        if dot and not set(environment) & set(":/@") and given is not None:
            text = given if isinstance(given, str) else _write_toml(given)
            overrides.setdefault(environment, {})[key] = text
    return overrides


def parse_kept_overrides(text: str) -> dict[str, dict[str, str]]:
    """Return the overrides in the context of a cdk.json, which the CDK CLI passes to the app in every run."""
    try:
        options = json.loads(text)["context"]
    except (ValueError, LookupError, TypeError):
        return {}
    return from_options(options) if isinstance(options, dict) else {}


def _write_toml(given: object) -> str:
    """Return the TOML of a number, a boolean, a list, or a table."""
    if isinstance(given, dict):
        return "{ " + ", ".join(f"{_quote(k)} = {_write_toml(v)}" for k, v in given.items()) + " }"
    if isinstance(given, list):
        return "[" + ", ".join(map(_write_toml, given)) + "]"
    if isinstance(given, float) and given.is_integer():
        return str(int(given))
    return _quote(given)


def _quote(given: object) -> str:
    """Return a string, a number, or a boolean, which TOML and JSON write the same way."""
    return json.dumps(given, ensure_ascii=False)


def split_key(dotted: str) -> KeyPath:
    """Return the parts of a dotted key. A part in quotes is read as TOML does, and may have dots.

    In a table of texts or numbers, such as tags, all that follows is one name. Raises ValueError.
    """
    parts: list[str] = []
    at = 0
    while True:
        found = _PART.match(dotted, at)
        if found is None:
            open_quote = dotted[at : at + 1] in ("'", '"')
            raise ValueError("a quote isn't closed" if open_quote else "a part is empty")
        table = find_type(tuple(parts))
        is_dict = typing.get_origin(table) is dict
        inside = unwrap_type(typing.get_args(table)[1]) if is_dict else None
        if inside in (str, int, float) and not found[1]:
            return (*parts, dotted[at:])
        parts.append(next(iter(tomllib.loads(f"{found[0]} = 0"))) if found[1] else found[0])
        at = found.end()
        if at == len(dotted):
            return tuple(parts)
        if dotted[at] != ".":
            raise ValueError("a dot is missing after a quote")
        at += 1


def find_unknown_environments(
    overrides: Overrides, environments: list[str], option: str
) -> list[Finding]:
    """Return a finding for every override whose environment doesn't exist."""
    return [
        build_file_error(
            f"{option} {environment}.{key}",
            "",
            f"there is no environment {environment!r}",
            suggest_name(environment, environments),
            given=environment,
            allowed=", ".join(environments),
        )
        for environment, keys in overrides.items()
        if environment not in environments
        for key in keys
    ]


def parse_value(text: str, key: tuple[str, ...]) -> Any:
    """Parse the text as a TOML value, or return it if it isn't one or the key takes text."""
    try:
        lines = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    if len(lines) > 1:
        return text
    parsed = lines["value"]
    kind = find_type(key)
    takes_text = kind in (str, ProjectPath) or (
        typing.get_origin(kind) is typing.Literal and isinstance(typing.get_args(kind)[0], str)
    )
    return text if takes_text and not isinstance(parsed, str) else parsed


@dataclass(frozen=True)
class _Override:
    key: KeyPath
    given: Any
    origin: str
    removes: bool


def apply_overrides(
    source: Source, environment: str, overrides: Mapping[str, str], option: str
) -> list[Finding]:
    """Replace values of the files by the overrides; their problems then name the option.

    Without a value, an override takes the key out, as if no file had it, unless the key takes a text.
    Returns a finding for each override that cannot apply: its key cannot be read, it is inside a model or
    variant that does not exist or inside a value that a different override gives, or it takes out nothing.
    """
    wanted, problems = _read_all(environment, overrides, option)
    layer = Source()
    applied: dict[KeyPath, str] = {}
    for each in wanted:
        key, origin = each.key, each.origin
        problem = next(_list_problems(source, each, applied), None)
        if problem is not None:
            problems.append(_build_finding(each, *problem))
            continue
        applied[key] = origin
        layer.put(key, each.given, origin)
        source.remove_other_spellings(key, each.given, whole=True)
        if each.removes:
            source.remove(key)
        else:
            source.put(key, each.given, origin)
    return problems + find_duplicate_settings(layer.values, f"{option} {environment}")


def _read_all(
    environment: str, overrides: Mapping[str, str], option: str
) -> tuple[list[_Override], list[Finding]]:
    """Return (overrides, findings): a table comes before the overrides of keys in it."""
    wanted, problems = [], []
    for dotted, text in overrides.items():
        origin = f"{option} {environment}.{dotted}"
        try:
            key, given, old = _read_override(split_key(dotted), text, origin)
        except ValueError as wrong:
            remedy = 'quote only names with a dot, as in tags."a.b"; a key cannot contain ='
            problems.append(build_file_error(origin, "", f"cannot read the key: {wrong}", remedy))
            continue
        problems += old
        wanted.append(_Override(key, given, origin, not text and _is_removable(key)))
    return sorted(wanted, key=lambda each: len(each.key)), problems


def _is_removable(key: KeyPath) -> bool:
    """Return whether an empty value takes the key out; a text may be empty, but not a reason."""
    is_setting = key[-2:-1] == ("environment",) and key[-1] in SETTINGS
    is_reason = key[0] == "acknowledge" and len(key) == 2
    kind = find_type(key)
    return is_setting or is_reason or (kind is not None and kind not in (str, ProjectPath))


def _read_override(key: KeyPath, text: str, origin: str) -> tuple[KeyPath, Any, list[Finding]]:
    """Return (key, value, findings) of an override, with the current names of renamed keys."""
    inside: Any = parse_value(text, key)
    for name in reversed(key):
        inside = {name: inside}
    findings = rename_variables(inside, origin)
    present = []
    for _ in key:
        ((name, inside),) = inside.items()
        present.append(name)
    return tuple(present), inside, findings


def _list_problems(
    source: Source, each: _Override, applied: Mapping[KeyPath, str]
) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each reason why an override can't apply: the problem, the wrong name, and the known names."""
    key, values = each.key, source.values
    for at, name in enumerate(key, start=1):
        is_whole = at == len(key) or not isinstance(find_value(values, key[:at]), dict | None)
        if key[:at] in applied and is_whole:
            yield f"collides with {applied[key[:at]]}", name, []
    named = values.get(key[0])
    if len(key) > 2 and key[0] in NAMED and isinstance(named, dict) and key[1] not in named:
        yield f"there is no {'.'.join(key[:2])}", key[1], sorted(named)
    table = find_value(values, key[:-1])
    entries = sorted(table) if isinstance(table, dict) else []
    names_are_free = typing.get_origin(find_type(key[:-1])) is dict and key[-1] not in SETTINGS
    if each.removes and names_are_free and key[-1] not in entries:
        yield f"there is no {'.'.join(key)} to remove", key[-1], entries


def _build_finding(each: _Override, problem: str, name: str, choices: list[str]) -> Finding:
    remedy, key = suggest_name(name, choices) if choices else "give one of them", ".".join(each.key)
    allowed = ", ".join(choices)
    return build_file_error(each.origin, key, problem, remedy, given=name, allowed=allowed)
