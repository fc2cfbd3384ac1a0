"""The two spellings of a container's settings in an environment file, and the old name of one of them.

A setting is a key of [variants.NAME.container], or its variable under [variants.NAME.environment]. The loader
reads both into the keys before any rule runs. Components and batches have the same two tables.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from infra.parameters.finding import Finding, Severity, file_error
from infra.parameters.renamed_keys import STILL_READ
from infra.policy.container import (
    BATCHING_SWITCH,
    SETTINGS,
    ContainerSettings,
    read_environment,
)

KeyPath = tuple[str, ...]


def container_tables(values: Mapping[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield (key, table) of each variant, component, and batch."""
    for above in ("variants", "batch"):
        for key, table in _tables_in(values, (above,)):
            yield key, table
            if above == "variants":
                yield from _tables_in(table, (*key, "components"))


def _tables_in(
    values: Mapping[str, Any], above: KeyPath
) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    tables = values.get(above[-1])
    for name, table in tables.items() if isinstance(tables, dict) else ():
        if isinstance(table, dict):
            yield (*above, name), table


def rename_variables(values: Mapping[str, Any], file: str) -> list[Finding]:
    """Rename each table `variables` of a file to `environment`; return a warning for each.

    Where a file has both, the entries of both are read, and the finding is an error.
    """
    findings = []
    old, new = STILL_READ
    for key, table in container_tables(values):
        if old not in table:
            continue
        both, entries = new in table, table.pop(old)
        if not both:
            table[new] = entries
        elif isinstance(entries, dict) and isinstance(table[new], dict):
            table[new] = entries | table[new]
        now = ".".join((*key, new))
        finding = file_error(
            file,
            ".".join((*key, old)),
            f"{old} and {new} are one table" if both else f"{old} was renamed {new}",
            f"move its entries to [{now}]"
            if both
            else f"write [{now}]; the next release rejects {old}",
        )
        findings.append(finding if both else replace(finding, severity=Severity.WARNING))
    return findings


def find_set_twice(values: Mapping[str, Any], file: str) -> list[Finding]:
    """Return an error for each setting that one file states as a key and as a variable."""
    return [
        file_error(
            file,
            ".".join((*key, "environment", variable)),
            f"environment.{variable} and container.{setting} set one thing",
            "keep one of them",
            given=value,
        )
        for key, table in container_tables(values)
        for variable, setting, value in _stated_twice(
            table.get("environment"), table.get("container")
        )
    ]


def _stated_twice(environment: Any, container: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield (variable, dotted key, value of the variable) of what both tables state."""
    for variable, value in environment.items() if isinstance(environment, dict) else ():
        inside, setting = container, SETTINGS.get(variable, "")
        for name in setting.split("."):
            inside = inside[name] if isinstance(inside, dict) and name in inside else None
        if inside is not None:
            yield variable, setting, value


def other_spellings(key: KeyPath, value: Any, *, whole: bool = False) -> Iterator[KeyPath]:
    """Yield the keys of earlier files that a later one replaces when it states `key` in the other spelling.

    `whole`: an override, which replaces all of a table; otherwise tables merge, and only `key` counts.
    """
    if key[0] not in ("variants", "batch"):
        return
    depth = 4 if key[0] == "variants" and key[2:3] == ("components",) else 2
    table, (name, *inside) = key[:depth], key[depth:] or ("",)
    if name == "environment":
        variables = value if whole and not inside and isinstance(value, dict) else {}
        for variable, text in (variables or dict.fromkeys(inside[:1], value)).items():
            switches_on = variable == BATCHING_SWITCH and str(text).lower() == "true"
            if variable in SETTINGS and not switches_on:
                yield (*table, "container", *SETTINGS[variable].split("."))
    elif name == "container":
        setting = ".".join(inside)
        for variable, other in SETTINGS.items():
            switches = variable == BATCHING_SWITCH and inside[:1] == ["batching"]
            if switches or other == setting or (whole and _is_below(other, setting)):
                yield (*table, "environment", variable)


def _is_below(setting: str, table: str) -> bool:
    return not table or setting.startswith(f"{table}.")


def read_pasted(given: Any) -> Any:
    """Return the arguments of a construct's settings with the variables of `environment` as keys.

    Raises ValueError for what the container doesn't take, and for a setting that both arguments state.
    """
    environment = given.get("environment") if isinstance(given, dict) else None
    if not isinstance(environment, Mapping) or not SETTINGS.keys() & environment.keys():
        return given
    if not all(isinstance(value, str) for value in environment.values()):
        return given  # its own validation rejects it
    container = given.get("container", {})
    if isinstance(container, ContainerSettings):
        container = container.model_dump(exclude_unset=True, exclude_none=True)
    if not isinstance(container, dict) or not isinstance(container.get("batching", {}), dict):
        return given
    for variable, setting, _ in _stated_twice(dict(environment), container):
        raise ValueError(
            f"environment[{variable!r}] and container.{setting} set one thing; keep one of them"
        )
    own, settings = read_environment(environment, batching="batching" in container)
    for setting, value in settings.items():
        container = _with(container, setting.split("."), value)
        try:
            ContainerSettings.model_validate(_with({}, setting.split("."), value))
        except ValidationError as wrong:
            variable = next(name for name, key in SETTINGS.items() if key == setting)
            raise ValueError(
                f"environment[{variable!r}]: {environment[variable]!r}: {wrong.errors()[0]['msg']}"
            ) from None
    return {**given, "environment": own, "container": container}


def _with(table: Mapping[str, Any], key: list[str], value: Any) -> dict[str, Any]:
    """Return a table with another value at `key`; an empty table replaces none."""
    name, *inside = key
    if inside:
        value = _with(table.get(name, {}), inside, value)
    elif value == {}:
        value = table.get(name, value)
    return {**table, name: value}
