"""Going back to a deployment: what it was, as a file that passes through the same checks."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from infra.packing import packed_key
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, load
from infra.preflight.check import check
from model_packaging.refusal import PackagingError
from servable.aws_account import Account
from servable.history import proof
from servable.history.deployments import Deployment

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
        proof.image(one, settings, account, notes)
        if "artifact" in settings["models"][name]:
            proof.archive(account, where, settings["models"][name]["artifact"]["sha256"])
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
    """Puts it in the place of the environment's file, beside and renamed."""
    file = folder / f"{loaded.name}.toml"
    beside = file.with_suffix(".toml.part")
    beside.write_text(found.text, encoding="utf-8")
    beside.replace(file)
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
    sha256 = proof.archive(account, url, None)
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
