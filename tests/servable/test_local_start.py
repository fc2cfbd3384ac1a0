"""A local start: failing warm-up requests, the wait, the archive that is fetched, and what is watched."""

import hashlib
import io
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from botocore.response import StreamingBody

from infra.parameters.model import Artifact
from model_packaging.refusal import PackagingError
from servable.project import provided
from servable.serve import serve
from servable.serve.command import list_changes, take_snapshot
from servable.serve.serve import PreparedVariant
from tests.conftest import VALID, Environment, valid

SERVED = PreparedVariant(
    variant="primary", archive=None, members={}, variables={}, image="", tensorflow="2.20",
    file="environments/dev.toml", warm_up={"ranker": ["golden/a.json", "golden/b.json"], "other": []},
)  # fmt: skip
BODY = b"0123456789" * 1000
URI = "s3://models/run-17/model.tar.gz"
ARTIFACT = Artifact(uri=URI, sha256=hashlib.sha256(BODY).hexdigest())


def reason(model: str, number: int) -> str:
    record = f"assets.extra/tf_serving_warmup_requests: record {number}"
    return f"TensorFlow can't load the model: model {model} version 3: {record}: no\n\trows"


def test_a_local_start_waits_as_stated_and_names_a_failing_warm_up_request(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, file in [(1, "golden/a.json"), (2, "golden/b.json")]:
        assert SERVED.explain_failure(reason("ranker", number)) == (
            f"no rows; environments/dev.toml: models.ranker.warm_up: the model fails on {file}, so that "
            "the container does not start; write a request there that the model answers, or remove it from "
            "warm_up"
        )
    for other in [
        reason("ranker", 3),
        reason("other", 1),
        reason("unknown", 1),
        "TensorFlow can't load the model: model ranker version 3: no graph",
        "the port 8080 is in use",
    ]:
        assert SERVED.explain_failure(other) == other
    waits: list[float] = []

    def start(*given: Any, ready_timeout_seconds: float, **options: Any) -> Any:
        waits.append(ready_timeout_seconds)
        return nullcontext(SimpleNamespace(faults=MagicMock()))

    monkeypatch.setattr(provided, "launch", start)
    monkeypatch.setattr(provided, "launch_image", start)
    for stated in ("", "startup_timeout_seconds = 90"):
        served = serve.prepare_variant(valid(environment(f"{VALID}{stated}\n")))
        with serve.serve_locally(served, port=0):
            pass
        serve.serve_image(served, port=0)
    assert waits == [3600, 3600, 90, 90]


class Bucket:
    """One object of S3, which notes the first byte of every request and may break off."""

    def __init__(self, body: bytes = BODY, breaks_after: int | None = None) -> None:
        self.body, self.breaks_after = body, breaks_after
        self.first_bytes: list[int] = []

    def head_object(self, **_: Any) -> dict[str, Any]:
        return {"ContentLength": len(self.body)}

    def get_object(self, **request: Any) -> dict[str, Any]:
        first = int(request["Range"].removeprefix("bytes=").removesuffix("-"))
        self.first_bytes.append(first)
        rest = self.body[first:][: self.breaks_after]
        return {"Body": StreamingBody(io.BytesIO(rest), content_length=len(self.body) - first)}


def test_an_archive_is_downloaded_whole_once_under_its_hash_and_other_bytes_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    target = serve.find_cached_path(ARTIFACT)
    assert target == tmp_path / "servable" / "archives" / f"{ARTIFACT.sha256}.tar.gz"
    reported: list[tuple[int, int]] = []

    def download(bucket: Bucket) -> list[int]:
        serve.fetch(ARTIFACT, bucket, target, lambda *progress: reported.append(progress))
        return bucket.first_bytes

    with pytest.raises(PackagingError, match="replaced since it was pinned"):
        download(Bucket(BODY[:-1] + b"!"))
    assert list(target.parent.iterdir()) == []
    target.with_name(f"{target.name}.part").write_bytes(BODY + b"of another object")
    with pytest.raises(Exception, match="bytes"):
        download(Bucket(breaks_after=4000))
    assert not target.exists()
    assert download(Bucket()) == [4000]  # it goes on where it ended
    assert (target.read_bytes(), reported[-1]) == (BODY, (len(BODY), len(BODY)))
    assert download(Bucket()) == []


def test_a_snapshot_has_the_files_that_an_archive_takes(tmp_path: Path) -> None:
    code, file = tmp_path / "code", tmp_path / "request.json"
    (code / "lib").mkdir(parents=True)
    (code / "__pycache__").mkdir()
    edited, deleted = code / "inference.py", code / "lib" / "rows.py"
    for path in (edited, deleted, file, code / "__pycache__" / "inference.pyc"):
        path.write_text("1")
    before = take_snapshot([code, file, tmp_path / "missing.toml"])
    assert set(before) == {edited, deleted, file}
    assert list_changes(before, take_snapshot([code, file])) == []

    edited.write_text("22")
    deleted.unlink()
    (code / "new.py").write_text("")
    (code / "__pycache__" / "new.pyc").write_text("")
    after = take_snapshot([code, file])
    assert list_changes(before, after) == [edited, deleted, code / "new.py"]
