"""A table through a container on this computer; a stand-in is the container."""

import errno
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from servable.batch import local_run
from servable.batch.local_run import MOST_FAILED, LocalBatch
from servable.batch.objects import BatchError, list_files
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


class Echo:
    """A container that answers each line with itself; a line BAD makes its request a 400."""

    url, pid = "http://127.0.0.1:1", None

    def __init__(self, interrupts: bool) -> None:
        self.interrupts, self.closed = interrupts, False

    def close(self) -> None:
        self.closed = True


def served() -> PreparedVariant:
    return PreparedVariant(
        variant="nightly", archive=None, members={}, variables={}, image="", tensorflow="2.20"
    )


@pytest.fixture
def started() -> list[Echo]:
    """The containers that a run has started."""
    return []


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Echo]) -> Run:
    def answer(container: Any, path: str, body: bytes, headers: Any, **_: Any) -> Any:
        if container._process.interrupts:
            raise KeyboardInterrupt
        if BAD.encode() in body.split(b"\n"):
            return 400, {}, json.dumps({"error": "no number"}).encode()
        return 200, {}, body + b"\n"

    monkeypatch.setattr("servable_local.aws.sagemaker.container.Container.post", answer)
    monkeypatch.setattr(
        "servable_local.aws.sagemaker.container.Container.get", lambda *_, **__: (404, {}, b"")
    )

    def call(
        tables: Mapping[str, str],
        limit: int | None = None,
        interrupts: bool = False,
        request: Mapping[str, Any] = REQUEST,
    ) -> BatchResult:
        def launch(*_: object, **__: object) -> Echo:
            started.append(Echo(interrupts))
            return started[-1]

        monkeypatch.setattr(local_run, "launch", launch)
        for name, text in tables.items():
            (tmp_path / "in").mkdir(exist_ok=True)
            (tmp_path / "in" / name).write_text(text)
        batch = LocalBatch(served(), request, tmp_path / "log")
        return batch.run(list_files(tmp_path / "in", tmp_path / "out"), limit)

    return call


def lines(count: int, **changed: str) -> str:
    """Rows of a kilobyte, numbered from 1; a request has a thousand of them."""
    rows = {str(number): f"{number}".zfill(1000) for number in range(1, count + 1)}
    return "\n".join(
        (rows | {key.removeprefix("row_"): row for key, row in changed.items()}).values()
    )


def test_every_row_is_answered_once_in_order_and_counted(run: Run, tmp_path: Path) -> None:
    result = run({"a.csv": lines(2500), "b.csv": lines(10)})
    assert (tmp_path / "out" / "a.csv.out").read_text() == lines(2500) + "\n"
    assert (result.rows_in, result.rows_out, result.is_complete) == (2510, 2510, True)


def test_bad_rows_are_named_with_the_container_s_words_and_their_file_has_no_result(
    run: Run, tmp_path: Path
) -> None:
    failed = run({"a.csv": lines(3000, row_17=BAD, row_2999=BAD), "b.csv": lines(3)}).failed
    assert sorted(one.place.rpartition(" row ")[2] for one in failed) == ["17", "2,999"]
    assert {(one.kind, one.message) for one in failed} == {("ClientError: 400", "no number")}
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["b.csv.out"]


def test_where_all_rows_are_bad_not_all_are_looked_for(run: Run) -> None:
    result = run({"a.csv": "\n".join([BAD] * 5000)})
    assert len(result.failed) <= 2 * MOST_FAILED


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
    batch = LocalBatch(served(), REQUEST, Path("log"))
    assert batch._describe_progress(400, 20.0) == "0 of 400 rows, 0 rows/s; ; press Ctrl-C to stop"
    batch._done = 100
    assert batch._describe_progress(400, 20.0) == (
        "100 of 400 rows, 5 rows/s; about 1 min 0 s left; press Ctrl-C to stop"
    )


def test_a_full_disk_ends_the_run_and_is_no_bad_row(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(local_run, "transform", fill)
    with pytest.raises(OSError, match="No space left"):
        run({"a.csv": lines(5)})


def test_a_file_that_is_no_gzip_is_named_and_the_run_ends(run: Run, tmp_path: Path) -> None:
    takes = {**REQUEST["TransformInput"], "CompressionType": "Gzip"}
    with pytest.raises(
        BatchError, match=f"{tmp_path}/in/a.csv: an input doesn't match its settings"
    ):
        run({"a.csv": "no gzip"}, request=REQUEST | {"TransformInput": takes})


def test_an_object_that_is_one_request_is_refused_as_a_whole(run: Run, tmp_path: Path) -> None:
    result = run({"a.csv": f"1\n{BAD}\n3", "b.csv": "1\n2"}, request=WHOLE)
    assert (result.rows_in, result.objects_in, result.objects_out) == (2, 2, 1)
    (failed,) = result.failed
    assert (failed.place, failed.kind) == (f"{tmp_path}/in/a.csv", "ClientError: 400")
    assert (tmp_path / "out" / "b.csv.out").read_text() == "1\n2\n"


def test_answers_that_cannot_be_counted_are_told(run: Run) -> None:
    gives = {"Accept": "application/x-npy", "AssembleWith": "None"}
    result = run({"a.csv": lines(3)}, request=REQUEST | {"TransformOutput": gives})
    assert (result.rows_in, result.rows_out, result.is_complete) == (3, None, True)
    assert (
        result.not_counted
        == "responses of type application/x-npy don't show how many rows they cover"
    )


def test_the_result_says_what_was_read_and_where_it_is(
    run: Run, started: list[Echo], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert [container.closed for container in started] == [True] * 4


def test_with_a_limit_the_bad_rows_are_those_of_the_sample(run: Run, tmp_path: Path) -> None:
    result = run({"a.csv": "1\n2\n3", "b.csv": f"4\n{BAD}\n6\n{BAD}", "c.csv": "7"}, limit=5)
    assert [failed.place.rpartition("/")[2] for failed in result.failed] == ["b.csv row 2"]
    assert (result.rows_in, result.objects_in) == (5, 2)
    assert (tmp_path / "out" / "a.csv.out").read_text() == "1\n2\n3\n"
