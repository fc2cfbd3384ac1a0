"""Where captured requests lie, which target they are asked of, and what a run is remembered by."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.parameters.loading import ValidFile
from servable.load.load_target import LoadTarget
from servable.load.options import TargetOptions
from servable.project.environments import Project
from servable.replay import command as against
from servable.replay import places, run
from servable.replay.command import _describe_run
from servable.replay.index import CaptureIndex
from servable.replay.places import (
    CaptureFile,
    LocalPlace,
    PlaceError,
    S3Place,
    UnreadableFileError,
    open_place,
    split_lines,
)
from servable.replay.run import RUN, ReplayPace, prepare_run_folder
from tests.conftest import VALID, Environment
from tests.servable.replay.captures import ANSWER, NINE, request, written
from tests.servable.replay.test_command import OPTIONS, Sending

# --- files


@settings(max_examples=50)
@given(st.lists(st.binary(max_size=6)), st.lists(st.integers(1, 9), max_size=9))
def test_lines_do_not_depend_on_chunks(lines: list[bytes], sizes: list[int]) -> None:
    content = b"\n".join(line.replace(b"\n", b"") for line in lines)
    chunks, at = [], 0
    for size in sizes:
        chunks.append(content[at : at + size])
        at += size
    chunks.append(content[at:])
    found = list(split_lines(iter(chunks)))
    assert b"".join(line or b"" for *_, line in found) == content
    assert [number for number, *_ in found] == [*range(1, len(found) + 1)]
    for _, offset, line in found:
        assert line is not None
        assert content[offset : offset + len(line)] == line


def test_a_file_or_a_folder_is_a_place_and_what_the_disk_refuses_is_named(tmp_path: Path) -> None:
    file = written(tmp_path / "a" / "b" / "x.jsonl", request(0))
    assert LocalPlace(file).list_files() == LocalPlace(tmp_path).list_files()
    assert LocalPlace(file).list_files() == [CaptureFile(str(file), file.stat().st_size)]

    file = CaptureFile(str(tmp_path), 0)
    with pytest.raises(UnreadableFileError, match=r": cannot be read: Is a directory$"):
        list(LocalPlace(tmp_path).iterate_chunks(file))
    with pytest.raises(UnreadableFileError):
        LocalPlace(tmp_path).read(file, 0, 1)


class Bucket:
    """One object of 10 bytes, whose parts are counted; or every call is refused."""

    def __init__(self, *, refused: bool = False) -> None:
        self.refused = refused
        self.ranges: list[str] = []

    def get_paginator(self, name: str) -> Any:
        return self

    def paginate(self, **given: str) -> Any:
        self._check("ListObjectsV2")
        names = ("b/x.jsonl", "b/", "a/x.jsonl")
        return [{"Contents": [{"Key": name, "Size": 10}]} for name in names] + [{}]

    def get_object(self, **given: str) -> Any:
        self._check("GetObject")
        self.ranges.append(given["Range"])
        first, last = map(int, given["Range"].removeprefix("bytes=").split("-"))
        content = b"0123456789"[first : last + 1]
        return {"Body": type("Body", (), {"read": lambda self: content})()}

    def _check(self, name: str) -> None:
        if self.refused:
            raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, name)


def test_objects_are_listed_and_their_parts_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = S3Place("s3://bucket/p", Bucket()).list_files()
    assert [file.name for file in files] == ["s3://bucket/a/x.jsonl", "s3://bucket/b/x.jsonl"]

    place = S3Place("s3://bucket/p", Bucket(refused=True))
    with pytest.raises(
        PlaceError, match=r"s3://bucket/p: cannot be read: .*AccessDenied.*s3:ListBucket"
    ):
        place.list_files()
    with pytest.raises(
        PlaceError, match=r"s3://bucket/k: cannot be read: .*kms:Decrypt of its key"
    ):
        place.read(CaptureFile("s3://bucket/k", 10), 0, 1)

    monkeypatch.setattr(places, "_PART_BYTES", 4)
    monkeypatch.setattr(places, "_MOST_PARTS", 2)
    bucket = Bucket()
    place, file = S3Place("s3://bucket/p", bucket), CaptureFile("s3://bucket/k", 10)
    reads = [place.read(file, offset, size) for offset, size in ((3, 3), (0, 8), (7, 3), (0, 1))]
    assert reads == [b"345", b"01234567", b"789", b"0"]
    # The third part takes the place of the first, which is fetched again.
    assert bucket.ranges == ["bytes=0-3", "bytes=4-7", "bytes=8-9", "bytes=0-3"]


def test_only_a_place_in_s3_has_a_client() -> None:
    def client() -> Any:
        clients.append(Bucket())
        return clients[-1]

    clients: list[Bucket] = []
    assert isinstance(open_place("folder", client), LocalPlace)
    assert clients == []
    assert isinstance(open_place("s3://bucket/p", client), S3Place)
    assert len(clients) == 1


# --- a run


def test_progress_is_told_of_every_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ReplaySender", Sending([lambda captured: ANSWER]))
    captured = [request(number, time=NINE + number + 0.5) for number in range(3)]
    written(tmp_path / "captured" / "x.jsonl", *captured)
    index = CaptureIndex(LocalPlace(tmp_path / "captured"))
    folder = run.prepare_run_folder(tmp_path, "a/b c", {})
    target = [LoadTarget(url="http://127.0.0.1:9/")]
    told: list[tuple[int, float]] = []
    run.replay(
        index, target, ReplayPace(), folder,
        progress=lambda summary, moment: told.append((summary.answered, moment)),
    )  # fmt: skip
    assert told == [(number + 1, NINE + number + 0.5) for number in range(3)]
    assert folder.name.startswith("a-b-c-")


@pytest.mark.parametrize("text", [None, "{", "[]", '{"question": {}}'])
def test_an_unreadable_run_is_not_gone_on_with(tmp_path: Path, text: str | None) -> None:
    folder = run.prepare_run_folder(tmp_path, "prod", {})
    if text is None:
        (folder / run.RUN).unlink()
    else:
        (folder / run.RUN).write_text(text)
    if text != "[]":
        assert run.prepare_run_folder(tmp_path, "prod", {}) != folder


@pytest.mark.parametrize(("target", "models"), [("deployed", ["config-7"]), ("local", [None])])
def test_another_deployment_is_another_run(
    environment: Environment, monkeypatch: pytest.MonkeyPatch, target: str, models: list[str | None]
) -> None:
    class Account:
        def client(self, service: str) -> Any:
            return self

        def describe_endpoint(self, **given: str) -> dict[str, str]:
            assert given == {"EndpointName": "ranker"}
            return {"EndpointConfigName": "config-7"}

    monkeypatch.setattr(
        "servable.replay.command.open_account", lambda environment, **given: Account()
    )
    options = dataclasses.replace(OPTIONS, target=target, redact=True)
    reached: Any = type("Reached", (), {"asked": type("Asked", (), {"model_sha256": None})})
    found = _describe_run("prod", environment(), [reached], options)
    assert (found["models"], found["redact"], found["what"]) == (models, True, "prod")


# --- the other target of --against


class Prepared:
    """What a target is prepared with."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given: list[tuple[str, ValidFile | None, Path, TargetOptions]] = []
        monkeypatch.setattr(against, "prepare_target", self._reached_by)

    @contextmanager
    def _reached_by(
        self,
        what: str,
        loaded: ValidFile | None,
        names: list[str],
        output: Path,
        options: TargetOptions,
    ) -> Iterator[str]:
        self.given.append((what, loaded, output, options))
        yield "reached"

    def target(self, name: str, loaded: ValidFile | None, root: Path, **changes: Any) -> Any:
        options = dataclasses.replace(OPTIONS, **changes)
        with against.prepare_other_target(
            name, loaded, "environments", root / "out", options
        ) as reached:
            return reached


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch, project: Path) -> Prepared:
    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(project)
    return Prepared(monkeypatch)


def test_an_address_is_asked_as_it_is(prepared: Prepared, project: Path) -> None:
    assert prepared.target("http://127.0.0.1:9", None, project) == "reached"
    assert prepared.given == [("http://127.0.0.1:9", None, project / "out", OPTIONS)]


def test_another_environment_has_its_own_variant(
    prepared: Prepared, environment: Environment, project: Path
) -> None:
    loaded = environment()
    (project / "environments" / "other.toml").write_text(VALID.replace('"ranker"', '"other"', 1))
    prepared.target("other", loaded, project, variant="primary", target="deployed")
    ((what, other, _, options),) = prepared.given
    assert (what, other and other.name) == ("other", "other")
    assert (options.variant, options.target) == (None, "deployed")


def test_a_revision_runs_on_this_computer(
    prepared: Prepared, environment: Environment, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = environment()

    @contextmanager
    def checked_out(project: Project, revision: str) -> Iterator[dict[str, ValidFile]]:
        yield {"prod": loaded} if revision == "main" else {}

    monkeypatch.setattr(against, "check_out_revision", checked_out)
    prepared.target("main", loaded, project, target="deployed", variant="primary")
    ((what, before, _, options),) = prepared.given
    assert (what, before, options.target, options.variant) == ("prod", loaded, "local", "primary")
    with pytest.raises(
        click.UsageError, match="environment prod didn't exist or couldn't be loaded"
    ):
        prepared.target("older", loaded, project)


QUESTION = {"place": "captured", "models": ["a"]}


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    return prepare_run_folder(tmp_path, "prod", QUESTION)


def test_an_unfinished_run_goes_on(
    unfinished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = [path.stat().st_mode & 0o777 for path in (unfinished, unfinished / RUN)]
    assert modes == [0o700, 0o600]
    assert prepare_run_folder(tmp_path, "prod", QUESTION) == unfinished
    assert prepare_run_folder(tmp_path, "prod", QUESTION | {"models": ["b"]}) != unfinished
    monkeypatch.chdir(tmp_path)
    assert prepare_run_folder(tmp_path, "prod", QUESTION) != unfinished
    (unfinished / RUN).write_text(json.dumps({"finished": True}))
    assert prepare_run_folder(tmp_path, "prod", QUESTION) != unfinished
