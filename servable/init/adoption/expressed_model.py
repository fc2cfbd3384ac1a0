"""Convert a deployed model to keys: archive, image, variables, role, and network."""

import re
from collections.abc import Collection, Mapping
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
from servable.init.adoption.live_fields import HIDDEN, Listed, LiveFields, accepts
from servable.init.adoption.live_snapshot import (
    AT_ROOT,
    NEWEST,
    STARTS_GUNICORN,
    LiveSnapshot,
    find_container,
    find_data_uri,
    parse_image_version,
)

HASH = "SERVABLE_ARTIFACT_SHA256"  # ours: infra/constructs/model/archive.py
_NAME: TypeAdapter[str] = TypeAdapter(Name)
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
_PIPELINE = "is an inference pipeline of several containers, but a variant serves one container"
# A model's graph below a prefix; the group is the folder that names the model.
_GRAPH = re.compile(r"(?:(?:.*/)?([^/]+)/)?[0-9]+/saved_model\.pb")
_REFERENCE = re.compile(r"arn:[^\s]+|true|false|", re.IGNORECASE)
# Fields of DescribeModel and of its container that are converted elsewhere, that aren't settings, or that
# have AWS's default.
_NO_SETTINGS = dict.fromkeys(
    ("ModelName", "ModelArn", "CreationTime", "ResponseMetadata", "DeploymentRecommendation",
     "PrimaryContainer", "Containers")
)  # fmt: skip
_CONTAINER = dict.fromkeys(
    ("Image", "Environment", "ModelDataUrl", "ModelPackageName", "ContainerHostname", "Mode")
) | {"ImageConfig": {"RepositoryAccessMode": "Platform"}}


class ExpressedModel:
    """One deployed model as tables of an environment file."""

    def __init__(
        self, snapshot: LiveSnapshot, name: str, instance_type: str | None, taken: Collection[str]
    ) -> None:
        """Convert the model. `taken`: names of tables that exist already.

        Raises `PackagingError` for a model that no environment file can serve.
        """
        self._snapshot, self._taken = snapshot, taken
        self._where = f"model {name}"
        self._own_name = _choose_free_name(name, taken)
        self.not_carried = Listed()
        self.models: dict[str, dict[str, Any]] = {}
        """[models.NAME]; the first is the one that the variant serves."""
        self.sources: dict[str, str] = {}
        """Folder that a table names -> S3 URI of the folder's content."""
        self.variables: dict[str, str] = {}
        self.container: dict[str, Any] = {}
        described = snapshot.models[name]
        if len(described.get("Containers") or []) > 1:
            remedy = "adopt an endpoint with one container, or join the steps into one model"
            raise PackagingError(Path(name), _PIPELINE, remedy)
        fields = LiveFields(self._where, described, self.not_carried, _NO_SETTINGS)
        live = find_container(described)
        packaged = snapshot.find_package_container(live)
        # A package's own variables apply beneath the model's.
        variables = {**packaged.get("Environment", {}), **(live.get("Environment") or {})}
        image = str(live.get("Image") or packaged.get("Image"))
        table = self._convert_image(image, instance_type)
        if fields.take("EnableNetworkIsolation"):
            table["network_isolation"] = True
        table |= fields.take_keys({"execution_role": "ExecutionRoleArn"})
        self.network = fields.take_keys(
            {"subnets": "VpcConfig.Subnets", "security_groups": "VpcConfig.SecurityGroupIds"}
        )
        uri = find_data_uri(live) or find_data_uri(packaged)
        if uri is None:
            problem = "has no archive; its model is in the image"
            remedy = "put the model into an archive and adopt that model"
            raise PackagingError(Path(self._where), problem, remedy)
        default = variables.get(DEFAULT_MODEL_NAME)
        if live.get("Mode") == "MultiModel":
            served = self._convert_multi_model(uri, table)
        elif uri.endswith(".tar.gz"):
            served = self._convert_archive(uri, default, table)
        else:
            served = self._convert_prefix(uri, default, table)
        package = live.get("ModelPackageName")
        self.identity = (uri, served, table, package)
        """What two deployed models that serve the same have in common."""
        if package:
            own = f":{snapshot.region}:{snapshot.account}:model-package/"
            stated = package.partition(own)[2] or package  # GROUP/VERSION in this account
            self.table["artifact"]["model_package"] = stated
        self._convert_variables(variables, table.get("tensorflow") or NEWEST)
        fields.note_rest()
        container = LiveFields(f"{self._where}: container", live, self.not_carried, _CONTAINER)
        for field in ("S3Uri", "S3DataType", "CompressionType"):
            container.take(f"ModelDataSource.S3DataSource.{field}")
        container.note_rest()

    @property
    def name(self) -> str:
        return next(iter(self.models))

    @property
    def table(self) -> dict[str, Any]:
        return self.models[self.name]

    def _convert_image(self, uri: str, instance_type: str | None) -> dict[str, Any]:
        """Return the keys of an image.

        They are `tensorflow` for AWS's image for that instance type, and otherwise `image` and, if
        its version is known, `tensorflow`.
        """
        aws = uri.partition(".")[0] in images.list_registry_accounts()
        if aws and "tensorflow" not in uri.partition("/")[2].partition(":")[0]:
            problem = f"its image is {uri}, which doesn't serve TensorFlow models"
            remedy = "adopt an endpoint with AWS's TensorFlow image"
            raise PackagingError(Path(self._where), problem, remedy)
        region, instance = self._snapshot.region, load_instances().get(instance_type or "")
        device = instance.device if instance else "cpu"
        for version in reversed(images.list_versions()):
            if region in images.list_regions(version):
                stock = images.find_image(version=version, device=device, region=region)
                if stock.uri == uri:
                    return {"tensorflow": version}
        known = parse_image_version(uri)
        return {"image": uri, **({"tensorflow": known} if known else {})}

    def _choose_name(self, served: str) -> str:
        """Return the name that requests use, or the table's own name if the former isn't free."""
        free = accepts(_NAME, served) and served not in self._taken
        return served if free else self._own_name

    def _convert_archive(self, uri: str, default: str | None, table: dict[str, Any]) -> str:
        """Set the table of an archive, and return the name of the model that it serves."""
        artifact: dict[str, Any] = {"uri": uri, "sha256": "0" * 64}
        served = default or AT_ROOT
        if (archive := self._snapshot.archives.get(uri)) is not None:
            artifact |= {
                "sha256": archive.sha256,
                "size_bytes": archive.size_bytes,
                "size_gib": max(archive.size_gib, 0.001),
            }
            served = default or min(archive.models, default=AT_ROOT)
            for problem in archive.problems:
                self.not_carried.note(uri, None, problem, "none")
            if len(archive.models) > 1 and default is None:
                reason = (
                    f"the container finds {', '.join(archive.models)}, and no variable selects one for "
                    f"requests without a model name; the file uses {served}; verify it"
                )
                self.not_carried.note(uri, None, reason)
        name = self._choose_name(served)
        if name != served:
            artifact["default_model"] = served
        self.models = {name: {"artifact": artifact, **table}}
        return served

    def _convert_prefix(self, uri: str, default: str | None, table: dict[str, Any]) -> str:
        """Set the table of files under a prefix, and return the folder that they get."""
        names = self._snapshot.prefixes.get(uri, ())
        found = {match[1] or AT_ROOT for name in names if (match := _GRAPH.fullmatch(name))}
        served = default or min(found, default=AT_ROOT)
        # Named after the deployed model: the model in it is called `model` in most of them.
        folder, name = f"models/{self._own_name}", self._choose_name(served)
        reason = f"files under a prefix can't be pinned; deployments now pack them from {folder}"
        if name != served:
            reason += f", where requests name the model {name} and not {served}"
        self.not_carried.note(uri, None, reason)
        self.models = {name: {"saved_model": folder, "compression": "none", **table}}
        if any(each.startswith(STARTS_GUNICORN) for each in names):
            self.table["code"] = f"{folder}/code"
        self.sources = {folder: uri}
        return folder

    def _convert_multi_model(self, uri: str, table: dict[str, Any]) -> str:
        """Set the tables of a multi-model endpoint, and return its prefix."""
        version = {key: table[key] for key in ("tensorflow",) if key in table}
        members: dict[str, dict[str, Any]] = {}
        for key in self._snapshot.prefixes.get(uri, ()):
            member = key.removesuffix(".tar.gz")
            if member in (key, self._own_name) or not accepts(_NAME, member):
                reason = "the key isn't NAME.tar.gz with a NAME of letters, digits, and hyphens"
                self.not_carried.note(f"{uri}{key}", None, reason, "lost")
                continue
            members[member] = {"saved_model": f"models/{member}", **version}
            self.sources[f"models/{member}"] = f"{uri}{key}"
        reason = "deployments now pack the archives of a multi-model endpoint from models/"
        self.not_carried.note(uri, None, reason)
        if not members:
            remedy = "upload one, or check the permission s3:ListBucket"
            raise PackagingError(Path(uri), "contains no model archive", remedy)
        self.models = {self._own_name: {"multi_model": [*members], **table}, **members}
        return uri

    def _convert_variables(self, variables: Mapping[str, str], version: str) -> None:
        """Divide variables into `variables` and the keys of `container`, or list them."""
        batches = variables.get(BATCHING_SWITCH, "false").lower() == "true"
        batching: dict[str, Any] = {}
        for name, value in sorted(variables.items()):
            where = f"{self._where}: variable {name}"
            if name in (DEFAULT_MODEL_NAME, HASH, BATCHING_SWITCH):
                continue
            if is_secret(name, value):
                reason = (
                    "it looks like a secret and was omitted; store it in AWS Secrets Manager and pass "
                    "its ARN, or add it to `environment` yourself"
                )
                self.not_carried.note(where, HIDDEN, reason, "lost")
            elif (key := find_setting(name, value)) is not None:
                parsed = _parse_setting(key, name, value, version)
                if parsed is None:
                    reason = f"container.{key} doesn't accept this value"
                    self.not_carried.note(where, value, reason, "lost")
                elif not key.startswith("batching."):
                    self.container[key] = parsed
                elif batches:
                    batching[key.removeprefix("batching.")] = parsed
                else:
                    reason = f"without {BATCHING_SWITCH}=true, the image doesn't read it"
                    self.not_carried.note(where, value, reason, "none")
            elif inert := explain_inert_variable(name, value, tensorflow=version):
                self.not_carried.note(where, value, f"the image doesn't use it: {inert}", "none")
            else:
                self.variables[name] = value
        if batches:
            self.container["batching"] = batching


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


def _choose_free_name(text: str, taken: Collection[str]) -> str:
    """Return a table name that is derived from the text and not taken."""
    name = re.sub(r"[^a-zA-Z0-9-]+", "-", text).strip("-")[:63].strip("-") or AT_ROOT
    numbers = (f"{name[:60]}-{number}" for number in range(2, 100))
    return next(each for each in (name, *numbers) if each not in taken)
