"""Models that no pinned archive holds: files under a prefix, and archives of a multi-model endpoint.

They are fetched into the project, where the file names their folders, and packed from then on.
"""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from model_packaging.refusal import PackagingError
from servable.console.lines import bytes_progress
from servable.init.adoption.live_fields import NotCarried
from servable.project.account import Account, AwsError
from servable_tensors.archive import (
    ArchiveError,
    LayoutError,
    find_code,
    find_models,
    unpack,
)


def fetch(sources: Mapping[str, str], account: Account, target: Path) -> None:
    """Write each source below `target`. `sources`: folder to the address of a prefix or a .tar.gz.

    Raises `PackagingError` if one cannot be read or unpacked; what is written by then stays.
    """
    for folder, uri in sources.items():
        (target / folder).mkdir(parents=True)
        try:
            if uri.endswith(".tar.gz"):
                with tempfile.TemporaryDirectory(prefix="servable-archive-") as temporary:
                    archive = Path(temporary, "model.tar.gz")
                    _download(account, uri, {"": archive})
                    unpack(archive, target / folder)
            else:
                _download(account, uri, dict(_below(account, uri, target / folder)))
        except AwsError as wrong:
            remedy = "check your credentials (s3:ListBucket, s3:GetObject, kms:Decrypt of its key)"
            raise PackagingError(Path(uri), f"cannot be read: {wrong}", remedy) from None
        except (ArchiveError, OSError) as wrong:
            raise PackagingError(Path(uri), f"cannot be fetched: {wrong}", "make room, or pack it "
                                 "again") from None  # fmt: skip


def _below(account: Account, uri: str, folder: Path) -> Iterator[tuple[str, Path]]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    for each in account.pages("s3", "list_objects_v2", "Contents", Bucket=bucket, Prefix=prefix):
        name = each["Key"].removeprefix(prefix)
        path = PurePosixPath(name)
        if name and not name.endswith("/") and not path.is_absolute() and ".." not in path.parts:
            yield name, folder / path


def _download(account: Account, uri: str, files: Mapping[str, Path]) -> None:
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    s3 = account.client("s3")
    with bytes_progress() as bar:
        sizes = {
            name: s3.head_object(Bucket=bucket, Key=key + name)["ContentLength"] for name in files
        }
        task = bar.add_task(f"download {uri}", total=sum(sizes.values()))
        for name, file in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            s3.download_file(
                bucket, key + name, str(file), Callback=lambda count: bar.advance(task, count)
            )


def locate(tables: dict[str, dict[str, Any]], root: Path) -> Iterator[NotCarried]:
    """Point each table at the model and the code in its fetched folder; yield what it cannot say.

    `tables`: [models.NAME], changed in place; `root`: the folder that holds the fetched folders.
    """
    for name, table in tables.items():
        folder = table.get("saved_model")
        if folder is None:
            continue
        try:
            found = find_models(root / folder)
        except LayoutError as wrong:
            yield NotCarried(where=folder, value=None, reason=str(wrong), effect="lost")
            continue
        served = name if name in found else min(found)
        place = next(iter(found[served].values())).parent
        table["saved_model"] = place.relative_to(root).as_posix()
        if others := [each for each in found if each != served]:
            reason = "the container finds them too; add a table for each and name it in also_serves"
            yield NotCarried(where=folder, value=", ".join(others), reason=reason, effect="lost")
        if (code := find_code(root / folder)) is not None:
            table["code"] = f"{folder}/code"
            if (code.folder / "requirements.txt").is_file():
                table["install"] = "at start"  # as live
