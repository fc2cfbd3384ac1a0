"""Loads environments from files and overrides, and collects every problem of every file."""

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from infra.parameters import overrides as override
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity, build_file_error
from infra.parameters.keys import convert_error
from infra.parameters.sources import Source, format_path, list_environment_names, read_source
from infra.parameters.spellings import KeyPath, find_value
from infra.policy.update import DeployedVariant, EndpointState


def build_deployed_variants(file: Environment) -> Mapping[str, DeployedVariant]:
    """Return the variants that a file deploys, assuming that nobody changed them by hand."""
    return {
        name: DeployedVariant(
            instance_type=next(iter(variant.instance_types), None),
            scales=variant.is_scaled,
            shadow=variant.shadow,
            pools=variant.instance_types if variant.instance_pools else (),
        )
        for name, variant in file.variants.items()
    }


def build_endpoint_state(file: Environment) -> EndpointState:
    """Return the state of the endpoint that a file describes."""
    return EndpointState(
        variants=build_deployed_variants(file),
        queued=file.kind.queued,
        guarded=file.rollout is not None,
    )


def build_hold_overrides(variants: Mapping[str, DeployedVariant]) -> dict[str, str]:
    """Return overrides that keep the variants' instance types and suspend their scaling."""
    overrides = {}
    for name, variant in variants.items():
        overrides[f"variants.{name}.scaling.hold"] = "true"
        if variant.pools:
            pools = ", ".join(f'{{ instance_type = "{kind}" }}' for kind in variant.pools)
            overrides[f"variants.{name}.instance_pools"] = f"[{pools}]"
        elif variant.instance_type is not None:
            overrides[f"variants.{name}.instance_type"] = variant.instance_type
    return overrides


# A stack's name has at most 128 letters, digits and hyphens, the service's name included.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_CreateStack.html
NAME = r"[a-zA-Z][a-zA-Z0-9-]{0,39}"

# Placeholders for missing values, so that the rules can still check the rest.
_STAND_INS: dict[KeyPath, Any] = {
    ("account",): "000000000000",
    ("region",): "us-east-1",
    ("endpoint",): {"name": "missing"},
    ("endpoint", "name"): "missing",
    ("models",): {},
}


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """An environment file that was read, with the findings about its keys."""

    name: str
    file: str
    """Path of the file relative to the project."""
    root: Path
    """The project's folder. Paths inside the file are relative to it."""
    draft: Environment | None
    """The environment, or the valid rest of a file with keys that are missing, unknown or of the wrong type,
    so that the rules report theirs in the same run. None if too little is left."""
    findings: tuple[Finding, ...]
    source: Source
    overrides: Mapping[str, str]
    sharing: tuple[str, ...] = ()
    """Files of other environments whose endpoints have the same name, account and region."""
    against: str | None = None
    """The name of what the file is compared with: a revision, or "what is live". None without one."""
    before: Environment | None = None
    """The file at that revision, as far as it could be read; None if it did not exist."""
    deployed: Mapping[str, DeployedVariant] = field(default_factory=dict)
    """The variants at that revision; empty if the environment did not exist."""
    asked_at: datetime | None = None
    """The present time with its time zone; None in synth, which reads no clock."""

    def find_origin(self, key: str) -> str:
        """Return the file or the option that set a key."""
        return self.source.find_origin(tuple(key.split(".")), self.file)


@dataclass(frozen=True, kw_only=True)
class ValidFile(Loaded):
    """A file with all required keys, known and of the right type; rules may still reject it."""

    draft: Environment

    @property
    def environment(self) -> Environment:
        return self.draft

    @property
    def address(self) -> tuple[str, str, str]:
        """Return account, Region, and lower-case name, which identify the endpoint."""
        return self.draft.account, self.draft.region, self.draft.endpoint.name.lower()


def load(
    root: Path,
    folder: Path,
    overrides: override.Overrides | None = None,
    option: str = "-c",
    kept: override.Overrides | None = None,
) -> list[Loaded]:
    """Load every environment of a folder. A file with problems does not affect the others.

    `option` is the command-line option that gave the overrides, for messages. `kept` are the overrides that
    cdk.json gives in every run; `overrides` win over them. In synth, the context has both.
    """
    given, lasting = overrides or {}, kept or {}
    every = [
        load_environment(root, folder, name, given.get(name, {}), option, lasting.get(name, {}))
        for name in list_environment_names(folder)
    ]
    valid = [loaded for loaded in every if isinstance(loaded, ValidFile)]
    sharing = {
        loaded.name: tuple(
            other.file
            for other in valid
            if other is not loaded
            and other.address == loaded.address
            and other.find_origin("endpoint.name") != loaded.file  # not inherited from this file
        )
        for loaded in valid
    }
    return [replace(loaded, sharing=sharing.get(loaded.name, ())) for loaded in every]


def load_environment(
    root: Path,
    folder: Path,
    name: str,
    overrides: Mapping[str, str],
    option: str,
    kept: Mapping[str, str] | None = None,
) -> Loaded:
    """Load one environment, without looking at the others of its folder."""
    shown = format_path(folder / f"{name}.toml", root)
    source = read_source(root, folder, name)
    findings = [*source.findings, *source.spelling]
    if not re.fullmatch(NAME, name):
        problem = f"{name!r} is not a valid name for an environment"
        allowed = "a letter followed by letters, digits, and hyphens, at most 40 characters"
        error = build_file_error(shown, "", problem, "rename the file", given=name, allowed=allowed)
        findings.insert(0, error)
    if kept:
        findings += override.apply_overrides(source, name, kept, "cdk.json")
    findings += override.apply_overrides(source, name, overrides, option)
    source.convert_variables()
    _name_batches(source, name, shown)
    draft, wrong = _validate_values(source, shown, root)
    findings += wrong
    findings.sort(key=lambda finding: finding.severity is not Severity.ERROR)
    invalid = draft is None or (findings and findings[0].severity is Severity.ERROR)
    kind: type[Loaded] = Loaded if invalid else ValidFile
    return kind(
        name=name,
        file=shown,
        root=root,
        draft=draft,
        findings=tuple(source.attach_variable(finding) for finding in findings),
        source=source,
        overrides=dict(sorted({**(kept or {}), **overrides}.items())),
    )


def _name_batches(source: Source, name: str, file: str) -> None:
    """Set endpoint.name, the prefix of the batches' names, in a file of batches alone.

    It is the environment's name, after the name of the service if there is one.
    """
    values = source.values
    table, service = values.get("endpoint", {}), values.get("service")
    if values.get("variants") or "batch" not in values or not isinstance(table, dict):
        return
    if "name" not in table:
        source.put(("endpoint", "name"), f"{service}-{name}" if service else name, file)


def _validate_values(
    source: Source, file: str, root: Path
) -> tuple[Environment | None, list[Finding]]:
    """Return the environment, if enough of the file is valid, and the findings about the rest."""
    partial = bool(source.findings)  # the file or its base could not be read: nothing is missing
    if source.values and not partial and not source.values.keys() & Environment.model_fields.keys():
        problem = "it contains none of an environment file's keys"
        remedy = "pass the project's folder: `servable --project FOLDER COMMAND`"
        return None, [build_file_error(file, "", problem, remedy)]
    try:
        return Environment.model_validate(source.values, context={"project": root}), []
    except ValidationError as wrong:
        errors = [each for each in wrong.errors() if not (partial and each["type"] == "missing")]
        # What is missing last: it may be a consequence of a misspelt table.
        errors.sort(key=lambda error: error["type"] == "missing")
        findings = [convert_error(error, source, file) for error in errors]
        return None if partial else _build_draft(source.values, wrong, root), findings


def _build_draft(values: dict[str, Any], wrong: ValidationError, root: Path) -> Environment | None:
    """Return the environment without its invalid keys, or None if too little is left."""
    rest = copy.deepcopy(values)
    for _ in range(20):  # each pass removes something; no file needs twenty
        for error in wrong.errors():
            key = tuple(str(part) for part in error["loc"] if part != "[key]")
            _remove_invalid(rest, key, missing=error["type"] == "missing")
        try:
            return Environment.model_validate(rest, context={"project": root})
        except ValidationError as again:
            wrong = again
    return None


def _remove_invalid(rest: Any, key: KeyPath, *, missing: bool) -> None:
    replaced = missing and key in _STAND_INS
    # A table without one of its other required keys is removed as a whole.
    *tables, name = key[:-1] if missing and not replaced else key
    table = find_value(rest, tables)
    if isinstance(table, dict):
        table.pop(name, None)
        if replaced:
            table[name] = copy.deepcopy(_STAND_INS[key])
