"""Convert a deployed model to keys: archive, image, variables, role, and network."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from infra.catalog import images
from infra.catalog.instances import load_instances
from infra.parameters.table import Name
from infra.policy.container import (
    BATCHING_SWITCH,
    DEFAULT_MODEL_NAME,
    ContainerSettings,
    build_variables,
    explain_inert_variable,
    find_setting,
    split_environment,
)
from model_packaging.refusal import PackagingError
from model_packaging.secret_files import find_secret, is_secret_by_name
from servable.init.adoption.live_fields import HIDDEN, Effect, LiveFields, NotCarried
from servable.init.adoption.live_snapshot import (
    AT_ROOT,
    STARTS_GUNICORN,
    LiveSnapshot,
    find_container,
    find_data_uri,
    find_package_container,
)

HASH = "SERVABLE_ARTIFACT_SHA256"  # ours: infra/constructs/model/archive.py
_NAME = TypeAdapter(Name)
# Wider than the rule of `servable check`: here a value would be copied out of an account, and a false alarm
# costs one line that its owner writes.
_SECRET_NAME = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|(?<!BY)(?<!COM)PASS(?=_|$)|_PWD|CREDENTIAL|TOKEN(?!I[SZ])"
    r"|(API|ACCESS|PRIVATE|ACCOUNT|SIGNING|ENCRYPTION)_?KEY|SALT|SIGNATURE|COOKIE|(^|_)AUTH(?!OR)|(^|_)DSN|WEBHOOK",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY|\b(AKIA|ASIA)[A-Z0-9]{16}\b|\beyJ[\w-]{8,}\.|\b[sr]k[-_]\w{12,}"
    r"|\b(Bearer|Basic)\s+\S{6,}|://[^/\s@]+@|hooks\.slack\.com/"
    # NAME=VALUE of connection strings, queries and JSON.
    r"|(passw(or)?d|pwd|secret|token|credential|signature|\bsig|(api|access|account|private)[_-]?key)"
    r"[\w-]*[\"']?\s*[=:]\s*[\"']?[^\s\"',;&}]{3,}",
    re.IGNORECASE,
)
# A key of random characters: a hash, a UUID, base64. Paths, addresses and sentences have other characters.
_RANDOM = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[A-Za-z0-9+=_-]{32,}")
# A model's graph below a prefix; the group is the folder that names the model.
_GRAPH = re.compile(r"(?:(?:.*/)?([^/]+)/)?[0-9]+/saved_model\.pb")
_REFERENCE = re.compile(r"arn:[^\s]+|true|false|", re.IGNORECASE)
# Fields of DescribeModel that aren't settings, or that have AWS's default.
_NO_SETTINGS = {
    "ModelName": None,
    "ModelArn": None,
    "CreationTime": None,
    "ResponseMetadata": None,
    "DeploymentRecommendation": None,
    "EnableNetworkIsolation": False,
}
_CONTAINER_DEFAULTS = {
    "ContainerHostname": None,
    "Mode": "SingleModel",
    "ImageConfig": {"RepositoryAccessMode": "Platform"},
}


@dataclass(frozen=True, kw_only=True)
class ExpressedModel:
    """One deployed model as tables of an environment file."""

    models: Mapping[str, dict[str, Any]]
    """[models.NAME]; the first is the one that the variant serves."""
    variables: Mapping[str, str]
    container: Mapping[str, Any]
    network: Mapping[str, list[str]]
    not_carried: Sequence[NotCarried]
    sources: Mapping[str, str]
    """Folder that a table names -> S3 URI of the folder's content."""

    @property
    def name(self) -> str:
        return next(iter(self.models))

    @property
    def table(self) -> dict[str, Any]:
        return self.models[self.name]


def convert_model(
    snapshot: LiveSnapshot, name: str, *, instance_type: str | None, taken: Collection[str]
) -> ExpressedModel:
    """Return the keys of one deployed model.

    `taken`: names of tables that exist already. Raises `PackagingError` for a model that no
    environment file can serve.
    """
    described, where = snapshot.models[name], f"model {name}"
    listed: list[NotCarried] = []
    if len(described.get("Containers") or []) > 1:
        problem = (
            "is an inference pipeline of several containers, but a variant serves one container"
        )
        remedy = "adopt an endpoint with one container, or join the steps into one model"
        raise PackagingError(Path(name), problem, remedy)
    fields = LiveFields(where, described, listed, known=_NO_SETTINGS)
    fields.take("PrimaryContainer"), fields.take("Containers")
    live = find_container(described)
    container = LiveFields(f"{where}: container", live, listed, known=_CONTAINER_DEFAULTS)
    package = container.take("ModelPackageName")
    packaged = find_package_container(snapshot.packages.get(package, {})) if package else {}
    # A package's own variables apply beneath the model's.
    variables = {**packaged.get("Environment", {}), **(container.take("Environment") or {})}
    image = str(container.take("Image") or packaged.get("Image"))
    table = _convert_image(where, image, snapshot.region, instance_type)
    if fields.take("EnableNetworkIsolation"):
        table["network_isolation"] = True
    if role := fields.take("ExecutionRoleArn"):
        table["execution_role"] = role
    keys = {"subnets": "Subnets", "security_groups": "SecurityGroupIds"}
    network = {key: fields.take("VpcConfig", field) for key, field in keys.items()}
    container.take("ModelDataUrl")
    for field in ("S3Uri", "S3DataType", "CompressionType"):
        container.take("ModelDataSource", "S3DataSource", field)
    uri = find_data_uri(live) or find_data_uri(packaged) or ""
    own_name, default = _choose_free_name(name, taken), variables.get(DEFAULT_MODEL_NAME)
    data = _ModelData(snapshot, uri, own_name, default, taken, table, listed)
    if multi_model := container.peek("Mode") == "MultiModel":
        container.take("Mode")
    models, sources = data.convert(where, multi_model=multi_model)
    if package:
        own = f":{snapshot.region}:{snapshot.account}:model-package/"
        stated = package.partition(own)[2] or package  # GROUP/VERSION in this account
        next(iter(models.values()))["artifact"]["model_package"] = stated
    version = table.get("tensorflow") or images.list_versions()[-1]
    own_variables, settings = _convert_variables(where, variables, version, listed)
    fields.note_rest()
    container.note_rest()
    return ExpressedModel(
        models=models,
        variables=own_variables,
        container=settings,
        network={key: value for key, value in network.items() if value},
        not_carried=listed,
        sources=sources,
    )


def _convert_image(where: str, uri: str, region: str, instance_type: str | None) -> dict[str, Any]:
    """Return the keys of an image.

    They are `tensorflow` for AWS's image for that instance type, and otherwise `image` and, if
    its version is known, `tensorflow`.
    """
    repository, _, tag = uri.partition("/")[2].partition(":")
    if uri.partition(".")[0] in images.list_registry_accounts() and "tensorflow" not in repository:
        problem = f"its image is {uri}, which doesn't serve TensorFlow models"
        raise PackagingError(Path(where), problem, "adopt an endpoint with AWS's TensorFlow image")
    instance = load_instances().get(instance_type or "")
    device = instance.device if instance else "cpu"
    for version in reversed(images.list_versions()):
        if region in images.list_regions(version):
            stock = images.find_image(version=version, device=device, region=region)
            if stock.uri == uri:
                return {"tensorflow": version}
    version = ".".join(tag.split("-")[0].split(".")[:2])
    known = {"tensorflow": version} if version in images.list_versions() else {}
    return {"image": uri, **known}


Converted = tuple[dict[str, dict[str, Any]], dict[str, str]]
"""([models.NAME] tables, sources of the folders that they name)"""


@dataclass(frozen=True)
class _ModelData:
    """The files of a deployed model: an archive, files under a prefix, or several archives."""

    snapshot: LiveSnapshot
    uri: str
    own_name: str
    """Free name for a table, derived from the deployed model's name."""
    default: str | None
    """Model that the container serves to requests without a model name, if a variable states it."""
    taken: Collection[str]
    table: Mapping[str, Any]
    """Keys of the table besides those of the data."""
    listed: list[NotCarried]

    def convert(self, where: str, *, multi_model: bool) -> Converted:
        if multi_model:
            return self._convert_multi_model()
        if self.uri.endswith(".tar.gz"):
            return self._convert_archive(), {}
        if self.uri:
            return self._convert_prefix()
        problem = "has no archive; its model is in the image"
        raise PackagingError(
            Path(where), problem, "put the model into an archive and adopt that model"
        )

    def _note(self, where: str, reason: str, effect: Effect = "changed") -> None:
        self.listed.append(NotCarried(where, None, reason, effect))

    def _choose_name(self, served: str) -> str:
        """Return the name that requests use, or the table's own name if the former isn't free."""
        return served if _is_name(served) and served not in self.taken else self.own_name

    def _convert_archive(self) -> dict[str, dict[str, Any]]:
        artifact: dict[str, Any] = {"uri": self.uri, "sha256": "0" * 64}
        served = self.default or AT_ROOT
        if (archive := self.snapshot.archives.get(self.uri)) is not None:
            artifact |= {
                "sha256": archive.sha256,
                "size_bytes": archive.size_bytes,
                "size_gib": max(archive.size_gib, 0.001),
            }
            served = self.default or min(archive.models, default=AT_ROOT)
            for problem in archive.problems:
                self._note(self.uri, problem, "none")
            if len(archive.models) > 1 and self.default is None:
                self._note(
                    self.uri,
                    f"the container finds {', '.join(archive.models)}, and no variable selects one for "
                    f"requests without a model name; the file uses {served}; verify it",
                )
        name = self._choose_name(served)
        if name != served:
            artifact["default_model"] = served
        return {name: {"artifact": artifact, **self.table}}

    def _convert_prefix(self) -> Converted:
        names = self.snapshot.prefixes.get(self.uri, ())
        found = {match[1] or AT_ROOT for name in names if (match := _GRAPH.fullmatch(name))}
        served = self.default or min(found, default=AT_ROOT)
        # Named after the deployed model: the model in it is called `model` in most of them.
        folder = f"models/{self.own_name}"
        name = self._choose_name(served)
        note = f"files under a prefix can't be pinned; deployments now pack them from {folder}"
        if name != served:
            note += f", where requests name the model {name} and not {served}"
        self._note(self.uri, note)
        table = {"saved_model": folder, "compression": "none", **self.table}
        if any(each.startswith(STARTS_GUNICORN) for each in names):
            table["code"] = f"{folder}/code"
        return {name: table}, {folder: self.uri}

    def _convert_multi_model(self) -> Converted:
        tables: dict[str, dict[str, Any]] = {}
        sources = {}
        version = self.table.get("tensorflow")
        for key in self.snapshot.prefixes.get(self.uri, ()):
            member = key.removesuffix(".tar.gz")
            if member in (key, self.own_name) or not _is_name(member):
                reason = "the key isn't NAME.tar.gz with a NAME of letters, digits, and hyphens"
                self._note(f"{self.uri}{key}", reason, "lost")
                continue
            folder = f"models/{member}"
            tables[member] = {"saved_model": folder, **({"tensorflow": version} if version else {})}
            sources[folder] = f"{self.uri}{key}"
        note = "deployments now pack the archives of a multi-model endpoint from models/"
        self._note(self.uri, note)
        if not tables:
            problem = "contains no model archive"
            remedy = "upload one, or check the permission s3:ListBucket"
            raise PackagingError(Path(self.uri), problem, remedy)
        return {self.own_name: {"multi_model": [*tables], **self.table}, **tables}, sources


def _convert_variables(
    where: str, variables: Mapping[str, str], version: str, listed: list[NotCarried]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return (the file's own environment variables, keys of [container])."""
    own: dict[str, str] = {}
    settings: dict[str, Any] = {}
    batching: dict[str, Any] = {}
    batches = variables.get(BATCHING_SWITCH, "false").lower() == "true"

    def note(name: str, value: str, reason: str, effect: Effect) -> None:
        listed.append(NotCarried(f"{where}: variable {name}", value, reason, effect))

    for name, value in sorted(variables.items()):
        if name in (DEFAULT_MODEL_NAME, HASH, BATCHING_SWITCH):
            continue
        if is_secret(name, value):
            reason = (
                "it looks like a secret and was omitted; store it in AWS Secrets Manager and pass "
                "its ARN, or add it to `environment` yourself"
            )
            note(name, HIDDEN, reason, "lost")
        elif (key := find_setting(name, value)) is not None:
            parsed = _parse_setting(key, name, value, version)
            if parsed is None:
                note(name, value, f"container.{key} doesn't accept this value", "lost")
            elif not key.startswith("batching."):
                settings[key] = parsed
            elif batches:
                batching[key.removeprefix("batching.")] = parsed
            else:
                reason = f"without {BATCHING_SWITCH}=true, the image doesn't read it"
                note(name, value, reason, "none")
        elif inert := explain_inert_variable(name, value, tensorflow=version):
            note(name, value, f"the image doesn't use it: {inert}", "none")
        else:
            own[name] = value
    if batches:
        settings["batching"] = batching
    return own, settings


def _parse_setting(key: str, name: str, value: str, version: str) -> Any:
    """Return the value of a container key that renders exactly this variable, or None."""
    parsed = split_environment({name: value}, batching=True)[1][key]
    part, _, inner = key.rpartition(".")
    given = {part: {inner: parsed}} if part else {key: parsed}
    try:
        settings = ContainerSettings.model_validate(given)
    except ValidationError:
        return None
    rendered = build_variables(settings, default_model=None, tensorflow=version)
    return parsed if rendered.get(name) == value else None


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable's name or value looks like a credential."""
    counts_tokens = "TOKEN" in name.upper() and value.isdecimal() and len(value) < 6
    if _REFERENCE.fullmatch(value) or counts_tokens:
        return False
    texts = (_SECRET_NAME.search(name), _SECRET_VALUE.search(value), _RANDOM.fullmatch(value))
    return any(texts) or is_secret_by_name(name, value) or find_secret(value.encode()) is not None


def _is_name(text: str) -> bool:
    """Return whether the text can be the name of a table [models.NAME]."""
    try:
        return bool(_NAME.validate_python(text))
    except ValidationError:
        return False


def _choose_free_name(text: str, taken: Collection[str]) -> str:
    """Return a table name that is derived from the text and not taken."""
    name = re.sub(r"[^a-zA-Z0-9-]+", "-", text).strip("-")[:63].strip("-") or AT_ROOT
    numbers = (f"{name[:60]}-{number}" for number in range(2, 100))
    return next(each for each in (name, *numbers) if each not in taken)
