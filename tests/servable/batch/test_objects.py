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


@pytest.mark.parametrize(
    ("body", "asked", "count"),
    [
        (b"", request(), 0),
        (b"1\n2\n", request(), 2),
        (b"1\n2", request(), 2),
        (b"1\n\n2\n", request(), 3),
        (b"1\n2", request("None"), 1),
        (tf_record(b"a") + tf_record(b"bc"), request("TFRecord"), 2),
        (gzip.compress(b"1\n2\n", mtime=0), request(**GZIP), 2),
    ],
)
def test_records_are_counted_as_they_are_split(
    body: bytes, asked: dict[str, Any], count: int
) -> None:
    assert count_records(io.BytesIO(body), asked) == count


@pytest.mark.parametrize(
    ("body", "asked"), [(b"no gzip", request(**GZIP)), (b"short", request("TFRecord"))]
)
def test_an_input_of_another_form_is_refused(body: bytes, asked: dict[str, Any]) -> None:
    with pytest.raises(BatchError, match="an input doesn't match its settings in the file"):
        count_records(io.BytesIO(body), asked)


@pytest.mark.parametrize(
    ("body", "asked", "count"),
    [
        (b"1\n2\n", request(), 2),
        ((PRETTY + "\n") * 3, request(accept="application/json", BatchStrategy="SingleRecord"), 3),
        ((PRETTY + "\n") * 3, request(accept="application/json", BatchStrategy="MultiRecord"), 6),
        (PRETTY, request("None", "application/json", "None"), 1),
        (b'{"SageMakerOutput":1}\n', request(DataProcessing={"JoinSource": "Input"}), 1),
        (
            b'{"outputs": [1]}',
            request(accept="application/json", BatchStrategy="MultiRecord"),
            None,
        ),
        (b"\x93NUMPY", request(accept="application/x-npy"), None),
    ],
)
def test_answers_are_counted_as_the_records_that_they_are_of(
    body: bytes | str, asked: dict[str, Any], count: int | None
) -> None:
    content = body.encode() if isinstance(body, str) else body
    assert count_result_records(io.BytesIO(content), asked) == count


def test_an_answer_that_is_longer_than_what_is_read_at_once_is_counted_once() -> None:
    asked = request(accept="application/json", BatchStrategy="MultiRecord")
    document = json.dumps({"predictions": [1] * 1_000_000}).encode()
    assert count_result_records(io.BytesIO(document + b"\n" + document), asked) == 2_000_000


@pytest.mark.parametrize(
    ("body", "asked", "first"),
    [
        (b"1\n2\n3", request(), b"1\n2\n"),
        (tf_record(b"a") * 3, request("TFRecord"), tf_record(b"a") * 2),
    ],
)
def test_the_first_records_keep_their_form(
    body: bytes, asked: dict[str, Any], first: bytes
) -> None:
    assert read_first_records(io.BytesIO(body), asked, 2) == (first, 2)


def test_the_first_records_of_gzip_are_gzip() -> None:
    content, _ = read_first_records(io.BytesIO(gzip.compress(b"1\n2\n")), request(**GZIP), 1)
    assert gzip.decompress(content) == b"1\n"


def test_the_first_records_that_have_no_lines_end_as_they_are() -> None:
    content, count = read_first_records(io.BytesIO(b"one"), request("None"), 2)
    assert (content, count) == (b"one", 1)


def test_a_result_that_is_no_json_is_refused() -> None:
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


def test_a_folder_without_files_is_refused_and_a_file_is_its_own_table(tmp_path: Path) -> None:
    (tmp_path / "in" / "empty").mkdir(parents=True)
    with pytest.raises(BatchError, match="the folder contains no files"):
        list_files(tmp_path / "in", tmp_path / "out")
    file = tmp_path / "in" / "a.csv"
    file.touch()
    (found,) = list_files(file, tmp_path / "in")
    assert (found.input, found.result) == (file, tmp_path / "in" / "a.csv.out")
