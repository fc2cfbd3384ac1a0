"""Restore a deployment: convert its settings to an environment file that passes the same checks.

Before that, verify that its archives and images still exist unchanged.
"""

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from botocore.exceptions import ClientError

from infra.catalog import images
from infra.packing import compute_packed_key
from infra.parameters.batch.job import list_batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import ValidFile, load
from infra.parameters.placement import Placement, list_placements
from infra.preflight.check import check
from model_packaging.beside import MADE, create_private_folder, write_atomically
from model_packaging.refusal import PackagingError
from servable.history.deployments import Deployment
from servable.project.account import Account, is_not_found, split_uri
from servable.verify.model import compute_digest

# The previous files: git may not have them with their comments.
REPLACED = Path(MADE) / "replaced"
# Keys that describe how an archive is packed; an archive in S3 is packed already.
_OF_PACKING = {"saved_model", "version", "code", "handler", "install", "warm_up", "also_serves"}
_OF_PACKING |= {"compression"}
# How often values are derived again: a written value may change what is derived for others.
_PASSES = 4
_NOTHING = "acknowledge-nothing"


@dataclass(kw_only=True)
class RestoredFile:
    """The environment file that restores a deployment."""

    text: str
    """TOML."""
    findings: list[Finding]
    notes: list[str]


def build_restored_file(
    loaded: ValidFile, deployment: Deployment, account: Account
) -> RestoredFile:
    """Verify that archives and images exist, and return the file that restores a deployment.

    Raises `PackagingError` with the reason if it can't be restored.
    """
    record = deployment.record
    if record is None:
        problem = f"the record of deployment {deployment.number} no longer exists"
        remedy = "check out its git revision and deploy it"
        raise PackagingError(Path(loaded.file), problem, remedy)
    settings: Any = json.loads(json.dumps(record["settings"]), object_hook=_remove_none)
    notes: list[str] = []
    containers = [*record["variants"], *record.get("batches", [])]
    for container in containers:
        name, where = container["model"], container["archive"]
        model = settings["models"][name]
        notes += _verify_image(container, model.get("image"), settings["region"], account)
        if "artifact" in model:
            _verify_archive(account, where, model["artifact"]["sha256"])
        elif _can_repack(loaded, settings, name, where):
            notes.append(f"{name}: the current sources produce the same archive")
        else:
            settings["models"][name] = _pin_archive(model, where, container, account)
            notes.append(f"{name}: served from the original location {where}")
    # Models that were only packed into an archive are removed, because the file names the archive. Older
    # records have no batches.
    used = {variant["model"] for variant in record["variants"]}
    used |= {batch["model"] for batch in settings.get("batch", {}).values()}
    for name in list(used):
        model = settings["models"][name]
        used |= {*model.get("also_serves", []), *model.get("multi_model", [])}
    settings["models"] = {name: model for name, model in settings["models"].items() if name in used}
    notes += _write_derived_values(loaded, settings, containers)
    text, findings = _render_checked_text(loaded, settings, deployment)
    return RestoredFile(text=text, findings=findings, notes=notes)


def _write_derived_values(loaded: ValidFile, settings: Any, containers: list[Any]) -> list[str]:
    """Write recorded values that are derived differently now into `settings`; return notes.

    Everything else stays as the file stated it, so that omitted values are derived again.
    """
    notes: dict[str, str] = {}
    for _ in range(_PASSES):
        now, changed = _derive_values(loaded, settings), False
        for container in containers:
            kind = "variant" if "variant" in container else "batch"
            name, model = container[kind], settings["models"][container["model"]]
            table = _find_table(settings, name) if kind == "variant" else settings["batch"][name]
            tables = {"job": table, "container": table.setdefault("container", {}), "models": model}
            derived = now.get((kind, name), {})
            recorded = {
                (place, key): value
                for place in ("job", "container")
                for key, value in container.get(place, {}).items()
            }
            if "image" not in model:  # the container's image is one of AWS's
                recorded = {("models", "tensorflow"): container["tensorflow"]} | recorded
            for (place, key), value in recorded.items():
                other = derived.get((place, key))
                if value in (other, tables[place].get(key)):
                    continue
                tables[place][key], changed = value, True
                label = f"models.{container['model']}" if place == "models" else f"{kind} {name}"
                today = f"today's derived value is {'none' if other is None else json.dumps(other)}"
                was = f"{label}: {key} = {json.dumps(value)} was derived at that time"
                notes[f"{label}.{key}"] = f"{was}, and is now set in the file: {today}"
            if not table["container"]:
                del table["container"]
        if not changed:
            break
    return [*notes.values()]


def _derive_values(
    loaded: ValidFile, settings: Any
) -> dict[tuple[str, str], dict[tuple[str, str], Any]]:
    """Return the values now in force, stated or derived; {} if the settings aren't valid."""
    try:
        environment = Environment.model_validate(settings, context={"project": loaded.root})
    except ValueError:
        return {}
    jobs = list_batch_jobs(environment)
    placed: list[tuple[str, str, Placement]] = [
        *(("variant", each.name, each) for each in list_placements(environment) if not each.pool),
        *(("batch", job.name, job.deployed_placement) for job in jobs),
    ]
    found: dict[tuple[str, str], dict[tuple[str, str], Any]] = {}
    for kind, name, placement in placed:
        chosen = placement.settings.model_dump(mode="json", exclude_none=True)
        found[kind, name] = {("container", key): value for key, value in chosen.items()}
        found[kind, name]["models", "tensorflow"] = placement.tensorflow
    for job in jobs:
        found["batch", job.name] |= {("job", each.name): each.value for each in job.choices}
    return found


def _find_table(settings: Any, name: str) -> Any:
    """Return the table of a variant or of a component."""
    components = (variant.get("components", {}) for variant in settings["variants"].values())
    own = (tables[name] for tables in components if name in tables)
    return next(own, None) or settings["variants"][name]


def replace_file(loaded: ValidFile, folder: Path, restorable: RestoredFile) -> tuple[Path, Path]:
    """Replace the environment's file atomically; return its path and the previous one's copy."""
    file = folder / f"{loaded.name}.toml"
    before = file.read_bytes()
    name = f"{loaded.name}-{hashlib.sha256(before).hexdigest()[:12]}.toml"
    kept = create_private_folder(loaded.root / REPLACED) / name
    for place, content in ((kept, before), (file, restorable.text.encode())):
        write_atomically(place, content)
    return file, kept


def _remove_none(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if value is not None}


def _can_repack(loaded: ValidFile, settings: Any, name: str, url: str) -> bool:
    """Return whether the sources on this computer still pack to the archive at `url`."""
    try:
        environment = Environment.model_validate(settings, context={"project": loaded.root})
        key = compute_packed_key(environment, name, loaded.root)
    except (PackagingError, OSError, KeyError, ValueError):
        return False
    return url.rstrip("/").removesuffix(".tar.gz").endswith(f"/{key}")


def _pin_archive(model: Any, url: str, variant: dict[str, Any], account: Account) -> dict[str, Any]:
    if not url.endswith(".tar.gz"):
        problem = "it is stored as files under an S3 prefix, and only an archive can be pinned"
        remedy = "check out the record's git revision and deploy it"
        raise PackagingError(Path(url), problem, remedy)
    sha256 = _verify_archive(account, url, None)
    bucket, name = split_uri(url)
    size = account.client("s3").head_object(Bucket=bucket, Key=name)["ContentLength"]
    artifact = {"uri": url, "sha256": sha256, "size_bytes": size}
    if variant.get("model_gib"):
        artifact["size_gib"] = variant["model_gib"]
    kept = {key: value for key, value in model.items() if key not in _OF_PACKING}
    return {"artifact": artifact, **kept}


def _render_checked_text(
    loaded: ValidFile, settings: Any, deployment: Deployment
) -> tuple[str, list[Finding]]:
    """Return the file's text and its findings.

    Acknowledgements that match no finding are removed from `settings`.
    """
    with tempfile.TemporaryDirectory(prefix="servable-restore-") as folder:
        file = Path(folder, f"{loaded.name}.toml")
        for _ in range(1 + len(settings.get("acknowledge", {}))):
            text = _render_text(settings, deployment)
            file.write_text(text, encoding="utf-8")
            (again,) = load(loaded.root, Path(folder))
            findings = check(again)
            rules = [finding.key for finding in findings if finding.rule == _NOTHING]
            if not rules:
                break
            for key in rules:
                settings["acknowledge"].pop(key.removeprefix("acknowledge."), None)
    return text, [finding for finding in findings if finding.severity is not Severity.NOT_CHECKED]


def _render_text(settings: Any, deployment: Deployment) -> str:
    number = deployment.number or deployment.fingerprint[:12]
    return f"""\
#:schema ./schema.json
# Deployment {number}, of {deployment.time}. Written by `servable history --restore`; whole, without
# `extends`. Return to the file in git when the problem is solved.
{tomlkit.dumps(settings)}"""


def _verify_image(
    container: dict[str, Any], own: str | None, region: str, account: Account
) -> Iterator[str]:
    """Verify that an image exists: a stock image in the catalog, its `own` in its ECR repository.

    Yields a note if it can't be verified. Raises `PackagingError` if it doesn't exist.
    """
    uri, version = container["image"], container["tensorflow"]
    if own is None:
        if version not in images.list_versions() or region not in images.list_regions(version):
            problem = f"the image of TensorFlow {version} is no longer known in {region}"
            raise PackagingError(Path(uri), problem, "set a different `tensorflow` and deploy it")
    elif (parsed := images.parse_own_image(own)) is not None:
        which = re.search(r"@(sha256:[0-9a-f]{64})$", own)
        image_id = {"imageDigest": which[1]} if which else {"imageTag": parsed.tag}
        repository = {"registryId": parsed.account, "repositoryName": parsed.repository}
        try:
            account.client("ecr").describe_images(**repository, imageIds=[image_id])
        except ClientError as error:
            if is_not_found(error):
                problem = "this image is no longer in its repository"
                raise PackagingError(Path(uri), problem, "push it again") from None
            yield f"{uri}: not verified: {error}"


def _verify_archive(account: Account, url: str, sha256: str | None) -> str:
    """Return the archive's SHA-256. Raises `PackagingError` if the archive was deleted or changed."""
    s3 = account.client("s3")
    actual = compute_digest(s3, url)
    if actual is None:
        remedy = _describe_remedy(s3, *split_uri(url))
        raise PackagingError(Path(url), "the archive no longer exists", remedy)
    if sha256 is not None and actual != sha256:
        problem = f"the archive changed: its SHA-256 is {actual}, not {sha256}"
        raise PackagingError(Path(url), problem, "restore the object's earlier version")
    return actual


def _describe_remedy(s3: Any, bucket: str, name: str) -> str:
    """Return the remedy for a deleted archive.

    A versioned bucket keeps deleted objects for as long as its lifecycle rules specify.
    """
    try:
        listed = s3.list_object_versions(Bucket=bucket, Prefix=name)
    except ClientError:
        listed = {}
    kept = [version for version in listed.get("Versions", []) if version["Key"] == name]
    if kept:
        version = kept[0]["VersionId"]
        return (
            f"the bucket still has its version {version}: `aws s3api copy-object --bucket {bucket} "
            f"--key {name} --copy-source '{bucket}/{name}?versionId={version}'`, then restore again"
        )
    return "check out the record's git revision, which has its sources, and deploy it"
