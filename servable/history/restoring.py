"""Going back to a deployment: what it was, as a file that passes through the same checks.

Before that, archive and image are proved to be still there, and the same.
"""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from botocore.exceptions import ClientError

from infra.catalog import images
from infra.packing import packed_key
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, load
from infra.preflight.check import check
from model_packaging.beside import beside
from model_packaging.refusal import PackagingError
from servable.aws_account import Account, absent
from servable.history.deployments import Deployment
from servable.verify.model import digest

# What describes how an archive is packed; one that lies in S3 is packed already.
_OF_PACKING = (
    "saved_model",
    "version",
    "code",
    "handler",
    "install",
    "warm_up",
    "also_serves",
    "compression",
)
_NOTHING = "acknowledge-nothing"


@dataclass(kw_only=True)
class Restored:
    """The file that brings a deployment back."""

    text: str
    """TOML."""
    findings: list[Finding]
    notes: list[str] = field(default_factory=list)


def restored(loaded: Loaded, deployment: Deployment, account: Account) -> Restored:
    """Proves that archive and image are still there. Raises `PackagingError` with the reason if not."""
    record = deployment.record
    if record is None:
        problem = f"deployment {deployment.number} has no record any more"
        raise PackagingError(Path(loaded.file), problem, "go back by git, and deploy that revision")
    settings = _copy(record["settings"])
    notes: list[str] = []
    for one in record["variants"]:
        name, where = one["model"], one["archive"]
        _prove_image(one, settings, account, notes)
        if "artifact" in settings["models"][name]:
            _proved_archive(account, where, settings["models"][name]["artifact"]["sha256"])
        elif _packs(loaded, settings, name, where):
            notes.append(f"{name}: the sources here still pack to the same archive")
        else:
            settings["models"][name] = _pinned(settings["models"][name], where, one, account)
            notes.append(f"{name}: served from {where}, where it was")
        # Derived then, said now: what is derived from an archive in S3 could be another.
        settings["variants"][one["variant"]]["container"] = one["container"]
    _without_strangers(settings)
    text, findings = _checked(loaded, settings, deployment)
    return Restored(text=text, findings=findings, notes=notes)


def write(loaded: Loaded, folder: Path, found: Restored) -> Path:
    """Puts it in the place of the environment's file, whole or not at all."""
    file = folder / f"{loaded.name}.toml"
    with beside(file) as to:
        to.write(found.text.encode())
    return file


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items() if one is not None}
    return [_copy(one) for one in value] if isinstance(value, list) else value


def _packs(loaded: Loaded, settings: Any, name: str, url: str) -> bool:
    """Whether the sources on this machine are still those of what lies there."""
    try:
        found = packed_key(Environment.model_validate(settings), name, loaded.root)
    except (PackagingError, OSError, KeyError, ValueError):
        return False
    return url.rstrip("/").removesuffix(".tar.gz").endswith(f"/{found}")


def _pinned(model: Any, url: str, one: dict[str, Any], account: Account) -> dict[str, Any]:
    if not url.endswith(".tar.gz"):
        problem = "it lies in S3 as files under a prefix, which cannot be pinned"
        raise PackagingError(Path(url), problem, "check out the record's revision, and deploy that")
    sha256 = _proved_archive(account, url, None)
    bucket, _, name = url.removeprefix("s3://").partition("/")
    size = account.client("s3").head_object(Bucket=bucket, Key=name)["ContentLength"]
    artifact = {"uri": url, "sha256": sha256, "size_bytes": size}
    if one.get("model_gib"):
        artifact["size_gib"] = one["model_gib"]
    kept = {key: value for key, value in model.items() if key not in _OF_PACKING}
    return {"artifact": artifact, **kept}


def _without_strangers(settings: Any) -> None:
    """Models that only went into an archive, which is now named as a whole."""
    used = {one["model"] for one in settings["variants"].values()}
    for name in list(used):
        model = settings["models"][name]
        used |= {*model.get("also_serves", []), *model.get("multi_model", [])}
    settings["models"] = {name: one for name, one in settings["models"].items() if name in used}


def _checked(loaded: Loaded, settings: Any, deployment: Deployment) -> tuple[str, list[Finding]]:
    """The text and what preflight finds in it, as in any other file. Drops what accepts nothing."""
    with tempfile.TemporaryDirectory(prefix="servable-restore-") as folder:
        file = Path(folder, f"{loaded.name}.toml")
        for _ in range(1 + len(settings.get("acknowledge", {}))):
            text = _text(settings, deployment)
            file.write_text(text, encoding="utf-8")
            (again,) = load(loaded.root, Path(folder))
            findings = check(again)
            if not list(_forget(settings, findings)):
                break
    return text, [one for one in findings if one.severity is not Severity.NOT_CHECKED]


def _forget(settings: Any, findings: list[Finding]) -> Iterator[str]:
    for one in findings:
        if one.rule == _NOTHING:
            rule = one.key.removeprefix("acknowledge.")
            settings["acknowledge"].pop(rule, None)
            yield rule


def _text(settings: Any, deployment: Deployment) -> str:
    document = tomlkit.document()
    document.add(tomlkit.comment(":schema ./schema.json").indent(0))
    said = f"Deployment {deployment.number or deployment.fingerprint[:12]}, of {deployment.time}."
    document.add(tomlkit.comment(f"{said} Written by `servable history --restore`; whole, without"))
    document.add(
        tomlkit.comment("`extends`. Go on from the file in git when what was wrong is mended.")
    )
    for name, value in settings.items():
        document.add(name, tomlkit.item(value))
    return tomlkit.dumps(document).replace("# :schema", "#:schema", 1)


def _prove_image(one: dict[str, Any], settings: Any, account: Account, notes: list[str]) -> None:
    """A stock image is known to the catalog; one of one's own is asked for."""
    uri = one["image"]
    own = settings["models"][one["model"]].get("image")
    if own is None:
        version, region = one["tensorflow"], settings["region"]
        if version not in images.versions() or region not in images.regions(version):
            problem = f"the image of TensorFlow {version} is not known in {region} any more"
            raise PackagingError(Path(uri), problem, "name another tensorflow, and deploy that")
        settings["models"][one["model"]]["tensorflow"] = version
        return
    parsed = images.own_image(own)
    if parsed is None:
        return
    which = re.search(r"@(sha256:[0-9a-f]{64})$", own)
    asked = {"imageDigest": which[1]} if which else {"imageTag": parsed.tag}
    try:
        account.client("ecr").describe_images(
            registryId=parsed.account, repositoryName=parsed.repository, imageIds=[asked]
        )
    except ClientError as error:
        if absent(error):
            problem = "this image is not in its repository any more"
            raise PackagingError(Path(uri), problem, "push it again") from None
        notes.append(f"{uri}: could not be asked for: {error}")


def _proved_archive(account: Account, url: str, sha256: str | None) -> str:
    """Its hash. Raises `PackagingError` where it is gone, or another."""
    bucket, _, name = url.removeprefix("s3://").partition("/")
    s3 = account.client("s3")
    found = digest(s3, bucket, name)
    if found is None:
        raise PackagingError(
            Path(url), "the archive is not there any more", _way_out(s3, bucket, name)
        )
    if sha256 is not None and found != sha256:
        problem = f"the archive is another: {found}, then {sha256}"
        raise PackagingError(Path(url), problem, "restore the object's earlier version")
    return found


def _way_out(s3: Any, bucket: str, name: str) -> str:
    """A versioned bucket keeps what was deleted, for as long as its lifecycle says."""
    try:
        listed = s3.list_object_versions(Bucket=bucket, Prefix=name)
    except ClientError:
        listed = {}
    kept = [one for one in listed.get("Versions", []) if one["Key"] == name]
    if kept:
        version = kept[0]["VersionId"]
        return (
            f"the bucket still has its version {version}: `aws s3api copy-object --bucket {bucket} "
            f"--key {name} --copy-source '{bucket}/{name}?versionId={version}'`, then again"
        )
    return "check out the record's revision, where its sources are, and deploy that"
