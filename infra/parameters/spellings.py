"""Other spellings of keys: renamed ones, and the two spellings of the settings of a container.

Rows of RENAMED are never removed, because somebody upgrades over many versions.

A setting is a key of [variants.NAME.container], or its variable under [variants.NAME.environment]. The loader
reads both into the keys before any rule runs. Components and batches have the same two tables.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from infra.parameters.finding import Finding, Severity, build_file_error
from infra.policy.container import BATCHING_SWITCH, SETTINGS

RENAMED: Mapping[str, str] = {
    "prices.serverless_usd_per_gb_processed": "prices.usd_per_gb_processed",
    "variants.NAME.variables": "variants.NAME.environment",
    "variants.NAME.components.NAME.variables": "variants.NAME.components.NAME.environment",
    "batch.NAME.variables": "batch.NAME.environment",
}
"""Old dotted key to new dotted key. NAME stands for a name that the file chooses, as in
models.NAME.golden."""
# The old name and the new one of what is read with a warning until the release after the next one.
STILL_READ = ("variables", "environment")


def find_new_name(key: tuple[str, ...]) -> str | None:
    """Return a renamed key's current name, with the file's own names; None if not renamed."""
    for was, now in RENAMED.items():
        parts = was.split(".")
        if len(parts) == len(key) and all(
            a in ("NAME", b) for a, b in zip(parts, key, strict=True)
        ):
            names = iter(b for a, b in zip(parts, key, strict=True) if a == "NAME")
            return ".".join(next(names) if part == "NAME" else part for part in now.split("."))
    return None


KeyPath = tuple[str, ...]


def find_value(values: Any, key: Sequence[str]) -> Any:
    """Return what nested tables have at `key`, or None."""
    for name in key:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def find_container_tables(values: Mapping[str, Any]) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    """Yield (key, table) of each variant, component, and batch."""
    for above in ("variants", "batch"):
        for key, table in _find_inner_tables((above,), values.get(above)):
            yield key, table
            if above == "variants":
                yield from _find_inner_tables((*key, "components"), table.get("components"))


def _find_inner_tables(key: KeyPath, values: Any) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
    for name, table in values.items() if isinstance(values, dict) else ():
        if isinstance(table, dict):
            yield (*key, name), table


def rename_variables(values: Mapping[str, Any], file: str) -> list[Finding]:
    """Rename each table `variables` of a file to `environment`. Return a warning for each.

    If the file has both tables, the finding is an error.
    """
    findings = []
    old, new = STILL_READ
    for key, table in find_container_tables(values):
        if old not in table:
            continue
        now, written = (".".join((*key, name)) for name in (new, old))
        if new in table:
            problem, remedy = f"{old} and {new} are the same table", f"move its entries to [{now}]"
            findings.append(build_file_error(file, written, problem, remedy))
        else:
            problem = f"{old} was renamed {new}, and the next release rejects it"
            finding = build_file_error(file, written, problem, f"write [{now}]")
            findings.append(replace(finding, severity=Severity.WARNING))
        table.setdefault(new, table.pop(old))
    return findings


def find_duplicate_settings(values: Mapping[str, Any], file: str) -> list[Finding]:
    """Return an error for each setting that one file states as a key and as a variable."""
    findings = []
    for key, table in find_container_tables(values):
        environment = table.get("environment")
        for variable, value in environment.items() if isinstance(environment, dict) else ():
            setting = SETTINGS.get(variable, "")
            if find_value(table, ["container", *setting.split(".")]) is not None:
                problem = f"environment.{variable} and container.{setting} set the same thing"
                written = ".".join((*key, "environment", variable))
                remedy = f"remove it, or take out container.{setting}"
                findings.append(build_file_error(file, written, problem, remedy, given=value))
    return findings


def find_other_spellings(key: KeyPath, value: Any, *, whole: bool = False) -> Iterator[KeyPath]:
    """Yield the keys that `key`, in its other spelling, replaces in earlier files.

    `whole` is true for an override, which replaces a whole table. Otherwise tables merge, and
    only `key` counts.
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
            below = whole and other.startswith(f"{setting}." if setting else "")
            if switches or below or other == setting:
                yield (*table, "environment", variable)
