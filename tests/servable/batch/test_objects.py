"""Records of a job's inputs and results, counted and copied."""

import gzip
import io
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from servable.batch.objects import (
    BatchError,
    LocalFile,
    count_records,
    count_result_records,
    list_files,
    read_first_records,
)

PRETTY = json.dumps({"predictions": [[1.0], [2.0]]}, indent=2)


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


GZIP: dict[str, Any] = {"TransformInput": {"CompressionType": "Gzip"}}


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
        assert count_records(io.BytesIO(body), asked) == count

    def first(body: bytes, asked: dict[str, Any], count: int) -> tuple[bytes, int]:
        return read_first_records(io.BytesIO(body), asked, count)

    assert first(b"1\n2\n3", request(), 2) == (b"1\n2\n", 2)
    assert first(tf_record(b"a") * 3, request("TFRecord"), 2) == (tf_record(b"a") * 2, 2)
    assert first(b"one", request("None"), 2) == (b"one", 1)
    content, _ = first(gzip.compress(b"1\n2\n"), request(**GZIP), 1)
    assert gzip.decompress(content) == b"1\n"
    for body, asked in ((b"no gzip", request(**GZIP)), (b"short", request("TFRecord"))):
        with pytest.raises(BatchError, match="an input doesn't match its settings in the file"):
            count_records(io.BytesIO(body), asked)


def test_answers_are_counted_as_the_records_that_they_are_of() -> None:
    several = request(accept="application/json", BatchStrategy="MultiRecord")
    cases: list[tuple[bytes | str, dict[str, Any], int | None]] = [
        (b"1\n2\n", request(), 2),
        ((PRETTY + "\n") * 3, request(accept="application/json", BatchStrategy="SingleRecord"), 3),
        ((PRETTY + "\n") * 3, several, 6),
        (PRETTY, request("None", "application/json", "None"), 1),
        (b'{"outputs": [1]}', several, None),
        (b'{"SageMakerOutput":1}\n', request(DataProcessing={"JoinSource": "Input"}), 1),
        (b"\x93NUMPY", request(accept="application/x-npy"), None),
    ]
    for body, asked, count in cases:
        content = body.encode() if isinstance(body, str) else body
        assert count_result_records(io.BytesIO(content), asked) == count

    document = json.dumps({"predictions": [1] * 500_000}).encode()
    assert count_result_records(io.BytesIO(document + b"\n" + document), several) == 1_000_000

    asked = request(accept="application/json", BatchStrategy="SingleRecord")
    with pytest.raises(ValueError, match=r"a result isn't JSON: '\\n<html>"):
        count_result_records(io.BytesIO(b'{"predictions": [1]}\n<html>'), asked)
    assert count_result_records(io.BytesIO(b'{"predictions": [1]}\n '), asked) == 1


@pytest.mark.parametrize(
    ("asked", "count"),
    [
        (request(accept="application/jsonlines; charset=utf-8"), 2),
        (request(accept="application/json", DataProcessing={"OutputFilter": "$.x"}), 2),
        (request(accept="application/json", DataProcessing={"OutputFilter": "$"}), None),
        (request(assemble="None"), None),
    ],
)
def test_lines_of_answers_are_counted_where_they_are_assembled(
    asked: dict[str, Any], count: int | None
) -> None:
    body = io.BytesIO(b'{"a": 1}\n{"a": 2}\n')
    assert count_result_records(body, asked | {"BatchStrategy": "MultiRecord"}) == count


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
