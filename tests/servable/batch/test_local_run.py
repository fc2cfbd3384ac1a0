"""A table through a container on this computer, for which a stand-in answers; records counted and copied."""

import errno
import gzip
import io
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from servable.batch import local_run, objects
from servable.batch.local_run import MOST_FAILED, LocalBatch
from servable.batch.objects import BatchError, LocalFile, list_files
from servable.batch.result import BatchResult
from servable.console import lines as console
from servable.serve.serve import PreparedVariant

Run = Callable[..., BatchResult]
REQUEST: dict[str, Any] = {
    "TransformJobName": "job",
    "MaxPayloadInMB": 1,
    "MaxConcurrentTransforms": 3,
    "BatchStrategy": "MultiRecord",
    "TransformInput": {"ContentType": "text/csv", "SplitType": "Line"},
    "TransformOutput": {"Accept": "text/csv", "AssembleWith": "Line"},
}
WHOLE = REQUEST | {"TransformInput": {"ContentType": "text/csv"}, "BatchStrategy": "SingleRecord"}
BAD = "bad"


SERVED = PreparedVariant(
    variant="nightly", archive=None, members={}, variables={}, image="", tensorflow="2.20"
)
PRETTY = json.dumps({"predictions": [[1.0], [2.0]]}, indent=2).encode()
GZIP: dict[str, Any] = {"TransformInput": {"CompressionType": "Gzip"}}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Mock]:
    """The containers that a run has started."""
    started: list[Mock] = []

    def launch(*_: object, **__: object) -> Mock:
        started.append(Mock(url="http://127.0.0.1:1", pid=None))
        return started[-1]

    monkeypatch.setattr(local_run, "launch", launch)
    return started


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Mock]) -> Run:
    """A container answers each line with itself; a line BAD makes its request a 400."""
    container = "servable_local.aws.sagemaker.container.Container"
    monkeypatch.setattr(f"{container}.get", lambda *_, **__: (404, {}, b""))

    def call(
        tables: Mapping[str, str], limit: int | None = None, interrupts: bool = False,
        request: Mapping[str, Any] = REQUEST,
    ) -> BatchResult:  # fmt: skip
        def answer(_: Any, path: str, body: bytes, headers: Any, **__: Any) -> Any:
            if interrupts:
                raise KeyboardInterrupt
            if BAD.encode() in body.split(b"\n"):
                return 400, {}, json.dumps({"error": "no number"}).encode()
            return 200, {}, body + b"\n"

        monkeypatch.setattr(f"{container}.post", answer)
        for name, text in tables.items():
            (tmp_path / "in").mkdir(exist_ok=True)
            (tmp_path / "in" / name).write_text(text)
        batch = LocalBatch(SERVED, request, tmp_path / "log")
        return batch.run(list_files(tmp_path / "in", tmp_path / "out"), limit)

    return call


def lines(count: int, *bad: int) -> str:
    """Rows of a kilobyte, numbered from 1; a request has a thousand of them."""
    rows = range(1, count + 1)
    return "\n".join(BAD if number in bad else f"{number:01000}" for number in rows)


def test_every_row_is_answered_once_in_order_and_counted(run: Run, tmp_path: Path) -> None:
    result = run({"a.csv": lines(2500), "b.csv": lines(10)})
    assert (tmp_path / "out" / "a.csv.out").read_text() == lines(2500) + "\n"
    assert (result.rows_in, result.rows_out, result.is_complete) == (2510, 2510, True)


def test_bad_rows_are_named_with_the_container_s_words_and_their_file_has_no_result(
    run: Run, tmp_path: Path
) -> None:
    failed = run({"a.csv": lines(3000, 17, 2999), "b.csv": lines(3)}).failed
    assert sorted(one.place.rpartition(" row ")[2] for one in failed) == ["17", "2,999"]
    assert {(one.kind, one.message) for one in failed} == {("ClientError: 400", "no number")}
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["b.csv.out"]
    # Of bad rows alone not all are looked for.
    assert len(run({"a.csv": "\n".join([BAD] * 5000)}).failed) <= 2 * MOST_FAILED


def test_the_progress_says_rows_rate_and_time_left(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "SILENT_SECONDS", 0.0)
    run({"a.csv": "1\n2", "b.csv": "3"}, request=WHOLE)
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(" rows, ")[0] for line in said] == ["1 of 2", "2 of 2"]
    (tmp_path / "in" / "b.csv").unlink()
    run({"a.csv": lines(2500)})
    said = capsys.readouterr().err.splitlines()
    rows = [line.partition(" rows, ")[0] for line in said]
    assert (len(rows), rows[-1]) == (3, "2,500 of 2,500")
    batch = LocalBatch(SERVED, REQUEST, Path("log"))
    assert batch._describe_progress(400, 20.0) == "0 of 400 rows, 0 rows/s; ; press Ctrl-C to stop"
    batch._done = 100
    assert batch._describe_progress(400, 20.0) == (
        "100 of 400 rows, 5 rows/s; about 1 min 0 s left; press Ctrl-C to stop"
    )


def test_a_full_disk_or_a_file_that_is_no_gzip_ends_the_run_and_is_no_bad_row(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = {**REQUEST["TransformInput"], "CompressionType": "Gzip"}
    problem = f"{tmp_path}/in/a.csv: an input doesn't match its settings"
    with pytest.raises(BatchError, match=problem):
        run({"a.csv": "no gzip"}, request=REQUEST | {"TransformInput": takes})

    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(local_run, "transform", full)
    with pytest.raises(OSError, match="No space left"):
        run({"a.csv": lines(5)})


def test_an_object_of_one_request_is_refused_as_a_whole_and_what_is_not_counted_is_told(
    run: Run, tmp_path: Path
) -> None:
    result = run({"a.csv": f"1\n{BAD}\n3", "b.csv": "1\n2"}, request=WHOLE)
    assert (result.rows_in, result.objects_in, result.objects_out) == (2, 2, 1)
    (failed,) = result.failed
    assert (failed.place, failed.kind) == (f"{tmp_path}/in/a.csv", "ClientError: 400")
    assert (tmp_path / "out" / "b.csv.out").read_text() == "1\n2\n"

    gives = {"Accept": "application/x-npy", "AssembleWith": "None"}
    table = {"a.csv": lines(3), "b.csv": lines(2)}
    result = run(table, request=REQUEST | {"TransformOutput": gives})
    assert (result.rows_in, result.rows_out, result.is_complete) == (5, None, True)
    said = "responses of type application/x-npy don't show how many rows they cover"
    assert result.not_counted == said


def test_the_result_says_what_was_read_and_where_it_is(
    run: Run, started: list[Mock], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = run({"a.csv": "1\n2"}, interrupts=True)
    assert (stopped.status, stopped.objects_out, stopped.interrupted) == ("Stopped", 0, True)
    assert [*(tmp_path / "out").iterdir()] == []
    assert run({"a.csv": BAD}).status == "Failed"
    result = run({"a.csv": "1\n2", "b.csv": "3\n"})
    assert (result.status, result.where, result.usd) == ("Completed", "local container", 0.0)
    assert (result.bytes_in, result.objects_in, result.objects_out) == (5, 2, 2)
    assert (result.output, result.job) == (str(tmp_path / "out"), "job")
    assert 0 < (result.seconds or 0) < 60
    monkeypatch.setattr(local_run, "transform", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run({"a.csv": "1"})
    assert [container.close.called for container in started] == [True] * 4


def test_with_a_limit_the_bad_rows_are_those_of_the_sample(run: Run, tmp_path: Path) -> None:
    result = run({"a.csv": "1\n2\n3", "b.csv": f"4\n{BAD}\n6\n{BAD}", "c.csv": "7"}, limit=5)
    assert [failed.place.rpartition("/")[2] for failed in result.failed] == ["b.csv row 2"]
    assert (result.rows_in, result.objects_in) == (5, 2)
    assert (tmp_path / "out" / "a.csv.out").read_text() == "1\n2\n3\n"


def request(
    split: str = "Line", accept: str = "text/csv", assemble: str = "Line", **more: Any
) -> dict[str, Any]:
    return {
        "TransformInput": {"SplitType": split, **more.pop("TransformInput", {})},
        "TransformOutput": {"Accept": accept, "AssembleWith": assemble},
        **more,
    }


def tf_record(content: bytes) -> bytes:
    return struct.pack("<Q", len(content)) + bytes(4) + content + bytes(4)


def test_records_are_counted_as_they_are_split_and_the_first_keep_their_form() -> None:
    cases: list[tuple[bytes, dict[str, Any], int]] = [
        (b"", request(), 0),
        (b"1\n2\n", request(), 2),
        (b"1\n2", request(), 2),
        (b"1\n\n2\n", request(), 3),
        (b"1\n2", request("None"), 1),
        (tf_record(b"a") + tf_record(b"bc"), request("TFRecord"), 2),
        (gzip.compress(b"1\n2\n", mtime=0), request(**GZIP), 2),
    ]
    for body, asked, count in cases:
        assert objects.count_records(io.BytesIO(body), asked) == count

    def first(body: bytes, asked: dict[str, Any], count: int) -> tuple[bytes, int]:
        return objects.read_first_records(io.BytesIO(body), asked, count)

    assert first(b"1\n2\n3", request(), 2) == (b"1\n2\n", 2)
    assert first(tf_record(b"a") * 3, request("TFRecord"), 2) == (tf_record(b"a") * 2, 2)
    assert first(b"one", request("None"), 2) == (b"one", 1)
    content, _ = first(gzip.compress(b"1\n2\n"), request(**GZIP), 1)
    assert gzip.decompress(content) == b"1\n"
    for body, asked in ((b"no gzip", request(**GZIP)), (b"short", request("TFRecord"))):
        with pytest.raises(BatchError, match="an input doesn't match its settings in the file"):
            objects.count_records(io.BytesIO(body), asked)


def test_answers_are_counted_as_the_records_that_they_are_of_where_they_are_assembled() -> None:
    several = request(accept="application/json", BatchStrategy="MultiRecord")
    single = request(accept="application/json", BatchStrategy="SingleRecord")
    document = json.dumps({"predictions": [1] * 500_000}).encode()
    rows, joined = b'{"a": 1}\n{"a": 2}\n', {"JoinSource": "Input"}
    cases: list[tuple[bytes, dict[str, Any], int | None]] = [
        (b"1\n2\n", request(), 2),
        ((PRETTY + b"\n") * 3, single, 3),
        ((PRETTY + b"\n") * 3, several, 6),
        (PRETTY, request("None", "application/json", "None"), 1),
        (b'{"outputs": [1]}', several, None),
        (b'{"predictions": [1]}\n ', single, 1),
        (document + b"\n" + document, several, 1_000_000),
        (b'{"SageMakerOutput":1}\n', request(DataProcessing=joined), 1),
        (b"\x93NUMPY", request(accept="application/x-npy"), None),
        (rows, several | request(accept="application/jsonlines; charset=utf-8"), 2),
        (rows, several | {"DataProcessing": {"OutputFilter": "$.x"}}, 2),
        (rows, several | {"DataProcessing": {"OutputFilter": "$"}}, None),
        (rows, several | request(assemble="None"), None),
    ]
    for body, asked, count in cases:
        assert objects.count_result_records(io.BytesIO(body), asked) == count
    with pytest.raises(ValueError, match=r"a result isn't JSON: '\\n<html>"):
        objects.count_result_records(io.BytesIO(b'{"predictions": [1]}\n<html>'), single)


def test_files_keep_their_folders_and_results_are_never_inside_of_the_input(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    (source / "day").mkdir(parents=True)
    with pytest.raises(BatchError, match="the folder contains no files"):
        list_files(source, out)
    with pytest.raises(BatchError, match="inside the input"):
        list_files(tmp_path, out)
    file = source / "day" / "a.csv"
    file.touch()
    assert list_files(source, out) == [LocalFile(file, out / "day" / "a.csv.out")]
    assert list_files(file, source) == [LocalFile(file, source / "a.csv.out")]
