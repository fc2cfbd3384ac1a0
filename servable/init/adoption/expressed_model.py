"""Convert a deployed model to keys: archive, image, variables, role, and network."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
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
from model_packaging.secret_files import find_secret, is_named_secret
from servable.init.adoption.live_fields import HIDDEN, LiveFields, NotCarried
from servable.init.adoption.live_picture import (
    AT_ROOT,
    STARTS_GUNICORN,
    LivePicture,
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
# What DescribeModel tells of a model, and no setting of it.
_NO_SETTINGS = {
    "ModelName": None,
    "ModelArn": None,
    "CreationTime": None,
    "ResponseMetadata": None,
    "DeploymentRecommendation": None,
    "EnableNetworkIsolation": False,
}


@dataclass(frozen=True, kw_only=True)
class ExpressedModel:
    """One deployed model as tables of an environment file."""

    models: Mapping[str, dict[str, Any]]
    """[models.NAME]; the first is the one that the variant serves."""
    variables: Mapping[str, str] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)
    network: Mapping[str, list[str]] = field(default_factory=dict)
    not_carried: tuple[NotCarried, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict)
    """Folder that a table names to the address in S3 of what has to lie there."""

    @property
    def name(self) -> str:
        return next(iter(self.models))

    @property
    def table(self) -> dict[str, Any]:
        return self.models[self.name]


def convert_model(
    picture: LivePicture, name: str, *, instance_type: str | None, taken: Mapping[str, Any]
) -> ExpressedModel:
    """Return the keys of one deployed model.

    `taken`: tables that exist already, by their names. Raises `PackagingError` for a model that
    no environment file can serve.
    """
    described = picture.models[name]
    where = f"model {name}"
    fields = LiveFields(where, described, known=_NO_SETTINGS)
    if len(described.get("Containers") or []) > 1:
        problem = "is an inference pipeline of several containers; a variant serves one"
        remedy = "adopt an endpoint with one container, or join the steps into one model"
        raise PackagingError(Path(name), problem, remedy)
    container = LiveFields(
        f"{where}: container",
        find_container(described),
        known={"ContainerHostname": None, "Mode": "SingleModel", "ImageConfig": {
            "RepositoryAccessMode": "Platform"}},
    )  # fmt: skip
    fields.take("PrimaryContainer"), fields.take("Containers")
    variables = container.take("Environment") or {}
    package = container.take("ModelPackageName")
    packaged = find_package_container(picture.packages.get(package, {})) if package else {}
    # A package's own variables apply beneath the model's.
    variables = {**packaged.get("Environment", {}), **variables}
    image = container.take("Image") or packaged.get("Image")
    table = _convert_image(where, str(image), picture.region, instance_type)
    version = table.get("tensorflow") or images.list_versions()[-1]
    if fields.take("EnableNetworkIsolation"):
        table["network_isolation"] = True
    if role := fields.take("ExecutionRoleArn"):
        table["execution_role"] = role
    network = {
        "subnets": fields.take("VpcConfig", "Subnets"),
        "security_groups": fields.take("VpcConfig", "SecurityGroupIds"),
    }
    default = variables.get(DEFAULT_MODEL_NAME)
    listed: list[NotCarried] = []
    models, sources = _convert_data(
        picture, where, container, packaged, default, table, listed, taken
    )
    if package:
        models[next(iter(models))]["artifact"]["model_package"] = _shorten_package_arn(
            package, picture
        )
    own, settings = _convert_variables(where, variables, version, listed)
    return ExpressedModel(
        models=models,
        variables=own,
        container=settings,
        network={key: value for key, value in network.items() if value},
        not_carried=(*listed, *fields.list_not_carried({}), *container.list_not_carried({})),
        sources=sources,
    )


def _convert_image(where: str, uri: str, region: str, instance_type: str | None) -> dict[str, Any]:
    """Return the keys of an image.

    They are `tensorflow` for AWS's image for that instance type, and otherwise `image` and, if
    its version is known, `tensorflow`.
    """
    repository, _, tag = uri.partition("/")[2].partition(":")
    account = uri.partition(".")[0]
    of_aws = account in images.list_registry_accounts()
    if of_aws and "tensorflow" not in repository:
        problem = f"its image is {uri}, which does not serve TensorFlow models"
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


def _convert_data(
    picture: LivePicture,
    where: str,
    container: LiveFields,
    packaged: Mapping[str, Any],
    default: str | None,
    about: dict[str, Any],
    listed: list[NotCarried],
    taken: Mapping[str, Any],
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return ([models.NAME] tables, sources of the folders that they name)."""
    live = find_container(picture.models[where.removeprefix("model ")])
    own_name = _choose_free_name(_clean_name(where.removeprefix("model ")), taken)
    uri = str(find_data_uri(live) or find_data_uri(packaged) or "")
    container.take("ModelDataUrl")
    for name in ("S3Uri", "S3DataType", "CompressionType"):
        container.take("ModelDataSource", "S3DataSource", name)
    if container.peek("Mode") == "MultiModel":
        container.take("Mode")
        return _convert_multi_model(picture, own_name, uri, about, listed)
    archive = picture.archives.get(uri)
    if not uri.endswith(".tar.gz"):
        if not uri:
            raise PackagingError(Path(where), "names no archive; its model is in the image itself",
                                 "put the model into an archive, and adopt that")  # fmt: skip
        names = picture.prefixes.get(uri, ())
        found = {match[1] or AT_ROOT for name in names if (match := _GRAPH.fullmatch(name))}
        name = default or min(found, default=AT_ROOT)
        # Named after the live model: the model in it is called `model` in most of them.
        folder = f"models/{own_name}"
        own_name = name if _is_name(name) and name not in taken else own_name
        note = f"files under a prefix cannot be pinned: they are packed from {folder} from then on"
        if own_name != name:
            note += f", where requests name the model {own_name} and not {name}"
        listed.append(NotCarried(where=uri, value=None, reason=note, effect="changed"))
        table = {"saved_model": folder, "compression": "none", **about}
        if any(name.startswith(STARTS_GUNICORN) for name in names):
            table["code"] = f"{folder}/code"
        return {own_name: table}, {folder: uri}
    artifact: dict[str, Any] = {"uri": uri, "sha256": "0" * 64}
    name = default or AT_ROOT
    if archive is not None:
        artifact |= {
            "sha256": archive.sha256,
            "size_bytes": archive.size_bytes,
            "size_gib": max(archive.size_gib, 0.001),
        }
        name = default or min(archive.models, default=AT_ROOT)
        listed += _list_archive_notes(uri, archive.models, archive.problems, default)
    table_name = name if _is_name(name) and name not in taken else own_name
    if table_name != name:
        artifact["default_model"] = name
    return {table_name: {"artifact": artifact, **about}}, {}


def _list_archive_notes(
    uri: str, models: Mapping[str, object], problems: object, default: str | None
) -> Iterator[NotCarried]:
    assert isinstance(problems, list | tuple)
    for problem in problems:
        yield NotCarried(where=uri, value=None, reason=problem, effect="none")
    if len(models) > 1 and default is None:
        reason = (
            f"the container finds {', '.join(models)} and no variable selects one for requests "
            f"without a model name; the file names {min(models)}: check it"
        )
        yield NotCarried(where=uri, value=None, reason=reason, effect="changed")


def _convert_multi_model(
    picture: LivePicture,
    name: str,
    prefix: str,
    about: dict[str, Any],
    listed: list[NotCarried],
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Return the tables of a multi-model endpoint, and the sources of its models' folders."""
    tables: dict[str, dict[str, Any]] = {}
    sources = {}
    for key in picture.prefixes.get(prefix, ()):
        member = key.removesuffix(".tar.gz")
        if member in (key, name) or not _is_name(member):
            reason = (
                "a model of a multi-model endpoint is NAME.tar.gz, of letters, digits and dashes"
            )
            listed.append(
                NotCarried(where=f"{prefix}{key}", value=None, reason=reason, effect="lost")
            )
            continue
        folder = f"models/{member}"
        tables[member] = {"saved_model": folder}
        if version := about.get("tensorflow"):
            tables[member]["tensorflow"] = version
        sources[folder] = f"{prefix}{key}"
    note = "archives of a multi-model endpoint are packed by the file from models/ from then on"
    listed.append(NotCarried(where=prefix, value=None, reason=note, effect="changed"))
    if not tables:
        problem = "no model archive is there, so that no model can be named"
        raise PackagingError(Path(prefix), problem, "put one there, or check s3:ListBucket")
    return {name: {"multi_model": [*tables], **about}, **tables}, sources


def _convert_variables(
    where: str, variables: Mapping[str, str], version: str, listed: list[NotCarried]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return (the file's own environment variables, keys of [container])."""
    own: dict[str, str] = {}
    settings: dict[str, Any] = {}
    batching: dict[str, Any] = {}
    rest = dict(variables)
    rest.pop(DEFAULT_MODEL_NAME, None), rest.pop(HASH, None)
    batches = rest.pop(BATCHING_SWITCH, "false").lower() == "true"
    for name, value in sorted(rest.items()):
        place = f"{where}: variable {name}"
        key = find_setting(name, value)
        if is_secret(name, value):
            reason = (
                "it looks like a secret and is left out: keep it in AWS Secrets Manager and give the code "
                "its ARN, or write it into environment on purpose"
            )
            listed.append(NotCarried(where=place, value=HIDDEN, reason=reason, effect="lost"))
        elif key is not None:
            inside = batching if key.startswith("batching.") else settings
            parsed = _parse_setting(key, name, value, version)
            if parsed is None:
                reason = f"container.{key} cannot express this value"
                listed.append(NotCarried(where=place, value=value, reason=reason, effect="lost"))
            elif inside is batching and not batches:
                reason = f"without {BATCHING_SWITCH}=true the image does not read it"
                listed.append(NotCarried(where=place, value=value, reason=reason, effect="none"))
            else:
                inside[key.removeprefix("batching.")] = parsed
        elif inert := explain_inert_variable(name, value, tensorflow=version):
            text = f"the image does not use it: {inert}"
            listed.append(NotCarried(where=place, value=value, reason=text, effect="none"))
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
    return any(texts) or is_named_secret(name, value) or find_secret(value.encode()) is not None


def _shorten_package_arn(arn: str, picture: LivePicture) -> str:
    """Return GROUP/VERSION for a model package of this account, otherwise the ARN."""
    own = f":{picture.region}:{picture.account}:model-package/"
    return arn.partition(own)[2] or arn


def _is_name(text: str) -> bool:
    """Return whether the text can be the name of a table [models.NAME]."""
    try:
        return bool(_NAME.validate_python(text))
    except ValidationError:
        return False


def _clean_name(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9-]+", "-", name).strip("-")[:63].strip("-") or AT_ROOT


def _choose_free_name(name: str, taken: Mapping[str, Any]) -> str:
    numbers = (f"{name[:60]}-{number}" for number in range(2, 100))
    return next(each for each in (name, *numbers) if each not in taken)
