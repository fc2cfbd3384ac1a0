"""Where captured requests lie, which are sent in which order, where to, and what a run is remembered by."""

import dataclasses
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.parameters.loading import ValidFile
from servable.captured.lines import CapturedRequest, format_line
from servable.measured.measurement import LoadTarget
from servable.project.environments import Project
from servable.replay import command as against
from servable.replay import places, run
from servable.replay.command import _describe_run
from servable.replay.index import CaptureIndex, list_capture_notes, spread_times
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
from tests.servable.replay.captures import ANSWER, NINE, Objects, request, written
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


def test_places_are_files_folders_or_s3_which_alone_has_a_client(tmp_path: Path) -> None:
    file = written(tmp_path / "a" / "b" / "x.jsonl", request(0))
    assert LocalPlace(file).list_files() == LocalPlace(tmp_path).list_files()
    assert LocalPlace(file).list_files() == [CaptureFile(str(file), file.stat().st_size)]

    file = CaptureFile(str(tmp_path), 0)
    with pytest.raises(UnreadableFileError, match=r": cannot be read: Is a directory$"):
        list(LocalPlace(tmp_path).iterate_chunks(file))
    with pytest.raises(UnreadableFileError):
        LocalPlace(tmp_path).read(file, 0, 1)

    def client() -> Any:
        clients.append(Objects({}))
        return clients[-1]

    clients: list[Objects] = []
    assert isinstance(open_place("folder", client), LocalPlace)
    assert clients == []
    assert isinstance(open_place("s3://bucket/p", client), S3Place)
    assert len(clients) == 1


def test_objects_are_listed_and_their_parts_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {"p/b/x.jsonl": b"", "p/b/": b"", "p/a/x.jsonl": b"", "k": b"0123456789"}
    files = S3Place("s3://bucket/p", Objects(contents)).list_files()
    assert [file.name for file in files] == ["s3://bucket/p/a/x.jsonl", "s3://bucket/p/b/x.jsonl"]

    place = S3Place("s3://bucket/p", Objects(contents, refused=True))
    with pytest.raises(PlaceError, match=r"/p: cannot be read: .*AccessDenied.*s3:ListBucket"):
        place.list_files()
    with pytest.raises(PlaceError, match=r"/k: cannot be read: .*kms:Decrypt of its key"):
        place.read(CaptureFile("s3://bucket/k", 10), 0, 1)

    monkeypatch.setattr(places, "_PART_BYTES", 4)
    monkeypatch.setattr(places, "_MOST_PARTS", 2)
    bucket = Objects(contents)
    place, file = S3Place("s3://bucket/p", bucket), CaptureFile("s3://bucket/k", 10)
    reads = [place.read(file, offset, size) for offset, size in ((3, 3), (0, 8), (7, 3), (0, 1))]
    assert reads == [b"345", b"01234567", b"789", b"0"]
    # The third part takes the place of the first, which is fetched again.
    assert bucket.ranges == ["bytes=0-3", "bytes=4-7", "bytes=8-9", "bytes=0-3"]


# --- a run


def test_progress_is_told_of_every_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "ReplaySender", Sending([lambda captured: ANSWER]))
    captured = [request(number, time=NINE + number + 0.5) for number in range(3)]
    index = CaptureIndex(LocalPlace(written(tmp_path / "captured" / "x.jsonl", *captured)))
    folder = run.prepare_run_folder(tmp_path, "a/b c", {})
    told: list[tuple[int, float]] = []
    run.replay(
        index, [LoadTarget(url="http://127.0.0.1:9/")], ReplayPace(), folder,
        progress=lambda summary, moment: told.append((summary.answered, moment)),
    )  # fmt: skip
    assert told == [(number + 1, NINE + number + 0.5) for number in range(3)]
    assert folder.name.startswith("a-b-c-")


def test_another_deployment_is_another_run(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Mock()
    describe = account.client.return_value.describe_endpoint
    describe.return_value = {"EndpointConfigName": "config-7"}
    monkeypatch.setattr(against, "open_account", lambda environment, **given: account)
    reached: Any = SimpleNamespace(asked=SimpleNamespace(model_sha256=None))
    for target, models in [("deployed", ["config-7"]), ("local", [None])]:
        options = dataclasses.replace(OPTIONS, target=target, redact=True)
        loaded = environment(VALID + "[alarms]\np99_latency_ms = 70\n")
        found = _describe_run("prod", loaded, [reached], options)
        assert (found["models"], found["redact"], found["what"]) == (models, True, "prod")
        assert found["p99_latency_ms"] == 70
    describe.assert_called_once_with(EndpointName="ranker")


def test_a_shadow_variant_of_the_environment_is_named_when_requests_are_read(
    environment: Environment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shadow = '[variants.copy]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\nshadow = true\n'
    for name in ("primary", "copy"):
        written(tmp_path / "ranker" / name / "2026" / "11" / "21" / "09" / "a.jsonl", request())
    options = dataclasses.replace(OPTIONS, place=str(tmp_path / "ranker"))
    against._read_index(environment(VALID + shadow), options)
    assert "variant copy is a shadow, so its 1 requests" in capsys.readouterr().err


# --- the other target of --against


def test_another_target_is_an_address_an_environment_or_a_revision(
    environment: Environment, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_out(project: Project, revision: str) -> Any:
        return nullcontext({"prod": loaded} if revision == "main" else {})

    def prepare(name: str, loaded: ValidFile | None, **changes: Any) -> Any:
        """Return what the target is prepared from."""
        options, output = dataclasses.replace(OPTIONS, **changes), project / "out"
        with against.prepare_other_target(name, loaded, "environments", output, options) as reached:
            return reached

    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(project)
    monkeypatch.setattr(against, "prepare_target", lambda *given: nullcontext(given))
    monkeypatch.setattr(against, "check_out_revision", check_out)
    loaded, url = environment(), "http://127.0.0.1:9"
    assert prepare(url, None) == (url, None, project / "out", OPTIONS)

    # Another environment has its own variant.
    (project / "environments" / "other.toml").write_text(VALID.replace('"ranker"', '"other"', 1))
    what, other, _, options = prepare("other", loaded, variant="primary", target="deployed")
    assert (what, other.name, options.variant, options.target) == (
        "other",
        "other",
        None,
        "deployed",
    )

    # A revision runs on this computer.
    what, before, _, options = prepare("main", loaded, target="deployed", variant="primary")
    assert (what, before, options.target, options.variant) == ("prod", loaded, "local", "primary")
    with pytest.raises(click.UsageError, match="prod didn't exist or couldn't be loaded"):
        prepare("older", loaded)


QUESTION = {"place": "captured", "models": ["a"]}


def test_an_unfinished_run_goes_on_and_an_unreadable_one_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfinished = prepare_run_folder(tmp_path, "prod", QUESTION)
    modes = [path.stat().st_mode & 0o777 for path in (unfinished, unfinished / RUN)]
    assert modes == [0o700, 0o600]
    assert prepare_run_folder(tmp_path, "prod", QUESTION) == unfinished
    assert prepare_run_folder(tmp_path, "prod", QUESTION | {"models": ["b"]}) != unfinished
    monkeypatch.chdir(tmp_path)
    assert prepare_run_folder(tmp_path, "prod", QUESTION) != unfinished
    (unfinished / RUN).write_text(json.dumps({"finished": True}))
    assert prepare_run_folder(tmp_path, "prod", QUESTION) != unfinished

    for text in ["", "{", '{"question": {}}']:
        folder = prepare_run_folder(tmp_path, "other", {})
        (folder / RUN).write_text(text) if text else (folder / RUN).unlink()
        assert prepare_run_folder(tmp_path, "other", {}) != folder


# --- which captured requests are sent, in which order, and what is named as skipped


def index(folder: Path) -> CaptureIndex:
    return CaptureIndex(LocalPlace(folder))


def ids(found: CaptureIndex) -> list[str]:
    return [captured.event_id for captured in found]


def test_a_folder_or_prefix_is_merged_by_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path  # with two variants in two hours, out of order inside of their files
    for variant, first in (("a", 0), ("b", 1)):
        for number, hour in enumerate(("09", "10")):
            times = [3600 * number + first + 2 * step for step in (2, 0, 1)]
            captured = [request(time, time=NINE + time + 0.5) for time in times]
            written(folder / "ep" / variant / "2026/11/21" / hour / "x.jsonl", *captured)
    order = [*range(6), *range(3600, 3606)]
    assert ids(index(folder)) == [f"event-{number}" for number in order]

    contents = {str(x.relative_to(folder)): x.read_bytes() for x in folder.rglob("*.jsonl")}
    monkeypatch.setattr(places, "_PART_BYTES", 500)  # a line is longer
    monkeypatch.setattr(places, "_MOST_PARTS", 3)
    there = CaptureIndex(S3Place("s3://bucket/ep/", Objects(contents)))

    def content(captured: CapturedRequest) -> tuple[str, bytes, float, str | None]:
        return captured.event_id, captured.body, captured.time, captured.variant

    assert [content(one) for one in there] == [content(one) for one in index(folder)]


def test_requests_of_one_second_keep_their_order_and_are_spread(tmp_path: Path) -> None:
    seconds = (1, 0, 1, 0)
    for name, first in (("a", 0), ("b", 4)):
        lines = enumerate(seconds, first)
        captured = [request(number, time=NINE + second) for number, second in lines]
        written(tmp_path / f"{name}.jsonl", *captured)
    written(tmp_path / "c.jsonl", request(8, time=NINE + 0.25))
    assert ids(index(tmp_path)) == [f"event-{number}" for number in (1, 8, 3, 5, 7, 0, 2, 4, 6)]
    times = np.array([5.0, 5.0, 5.0, 5.0, 6.25, 7.0])
    assert spread_times(times).tolist() == [5.125, 5.375, 5.625, 5.875, 6.25, 7.5]


def test_damaged_lines_are_named_by_their_reason_and_the_others_are_read(tmp_path: Path) -> None:
    file = written(tmp_path / "x.jsonl", request(0))
    file.write_bytes(b"{}\n" + file.read_bytes() + format_line(request(1))[:-5])
    found = index(tmp_path)
    assert [str(skipped) for skipped in found.skip_counts] == [
        f"{file}, line 1: skipped: it isn't a data capture record",
        f"{file}, line 3: skipped: it is truncated",
    ]
    assert ids(found) == ["event-0"]

    file.write_bytes(b"\n\xff\xfe\n" * 1200)
    reports: list[tuple[int, int]] = []
    (skipped,) = CaptureIndex(LocalPlace(file), lambda *read: reports.append(read)).skip_counts
    assert reports == [(3997, 4800), (4800, 4800)]
    assert str(skipped) == f"{file}: 1,200 lines skipped, the first is 2: it is not JSON"


def test_lines_and_files_that_are_no_requests_are_named(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    (skipped,) = index(tmp_path).skip_counts
    assert str(skipped).endswith("x.parquet: skipped: its name does not end in .jsonl")
    with pytest.raises(PlaceError, match="no such file or folder"):
        index(tmp_path / "nothing")

    file = written(tmp_path / "x.jsonl", request(0))
    found = index(tmp_path)
    file.write_bytes(b"x" * file.stat().st_size)
    with pytest.raises(PlaceError, match="line 1: the file has changed"):
        found.read_request(0)


def test_a_line_longer_than_any_record_and_an_unreadable_file_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = written(tmp_path / "a.jsonl", request(0))
    written(tmp_path / "b.jsonl", request(1))
    chunks = LocalPlace.iterate_chunks

    def reading(place: LocalPlace, file: places.CaptureFile) -> Iterator[bytes]:
        if file.name == str(refused):
            raise places.UnreadableFileError(f"{refused}: cannot be read: Permission denied")
        return chunks(place, file)

    monkeypatch.setattr(LocalPlace, "iterate_chunks", reading)
    found = index(tmp_path)
    (skipped,) = found.skip_counts
    assert str(skipped) == f"{refused}: skipped: cannot be read: Permission denied"
    assert ids(found) == ["event-1"]

    monkeypatch.setattr(places, "MOST_LINE_BYTES", 10)
    chunks = [b"ab\n", b"x" * 8, b"x" * 8, b"x\ncd", b"\n", b"e"]
    lines = [(1, 0, b"ab\n"), (2, 3, None), (3, 21, b"cd\n"), (4, 24, b"e")]
    assert list(split_lines(iter(chunks))) == lines


def test_requests_of_a_shadow_variant_are_said_to_repeat_others(tmp_path: Path) -> None:
    for name, count in (("primary", 3), ("next", 2)):
        file = tmp_path / "ranker" / name / "2026" / "11" / "21" / "09" / "a.jsonl"
        written(file, *(request(number) for number in range(count)))
    counted, repeated = list_capture_notes(index(tmp_path), {"next", "other"})
    assert counted == "captured by variant: primary 3, next 2"
    assert repeated.startswith("variant next is a shadow, so its 2 requests repeat those")


def test_only_a_gap_that_traffic_does_not_explain_is_named(tmp_path: Path) -> None:
    times = [*range(0, 300, 3), *range(3600, 3900, 3)]
    several = [request(number, time=NINE + time + 0.5) for number, time in enumerate(times)]
    written(tmp_path / "a.jsonl", *several)
    (note,) = list_capture_notes(index(tmp_path), set())
    assert note.startswith("nothing was captured in the 55 minutes from 2026-11-21 09:04:57 UTC")

    several = [request(number, time=NINE + 900.0 * number + 0.5) for number in range(50)]
    written(tmp_path / "a.jsonl", *several)
    assert [*list_capture_notes(index(tmp_path), set())] == []
