"""`servable batch`: what is refused before anything runs, and estimates of measured runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servable.batch.deployed_batch import BUCKET, FILE, Servable, of_this_folder, project

SECOND = FILE[FILE.index("[batch.nightly]") :].replace("nightly", "weekly")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = project(tmp_path / "project")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def batch(root: Path, capsys: pytest.CaptureFixture[str]) -> Servable:
    return of_this_folder(capsys)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["weekly"], "has no [batch.weekly]; allowed: nightly"),
        (["--attach", "job", "--limit", "5"], "give no other option"),
        (["--input", "table.csv"], "add --local for a file of this computer"),
        (["--local", "--input", "none.csv", "--output", "out"], "no such file or folder"),
        (["--local", "--input", "."], "give --output FOLDER"),
        (["--input", "s3://a/in/", "--output", "s3://a/in/out/"], "inside the input"),
        (["--input", f"s3://{BUCKET}/"], "inside the input"),
        (["--limit", "0"], "0 is not in the range x>=1"),
    ],
)
def test_wrong_use_is_refused(batch: Servable, arguments: list[str], problem: str) -> None:
    code, _, errors = batch(*arguments)
    assert (code, problem in errors) == (2, True), errors


def test_one_of_several_batches_is_named(root: Path, batch: Servable) -> None:
    (root / "environments" / "rows.toml").write_text(FILE + SECOND)
    code, _, errors = batch()
    assert (code, "name one of nightly, weekly" in errors) == (2, True)


# --- the estimate


def run_of(root: Path, job: str, **changed: Any) -> None:
    run = {
        "job": job, "batch": "rows/nightly", "where": "local container", "instance_type": "ml.c5.xlarge",
        "instances": 1, "objects_in": 1, "rows_in": 1000, "seconds": 10.0,
    }  # fmt: skip
    folder = root / ".servable" / "batch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{job}.json").write_text(json.dumps(run | changed))


@pytest.fixture
def estimate(root: Path, batch: Servable) -> Callable[[], tuple[int, Any]]:
    (root / "table.csv").write_text("1,2\n" * 5000)

    def call() -> tuple[int, Any]:
        code, output, _ = batch("--local", "--input", "table.csv", "--estimate", "--json")
        return code, json.loads(output)

    return call


def test_without_a_measured_rate_the_time_cannot_be_told(
    estimate: Callable[[], tuple[int, Any]],
) -> None:
    code, told = estimate()
    assert (code, told["seconds"], len(told["missing"])) == (3, None, 1)


def test_the_time_follows_from_the_rate_of_the_largest_run(
    root: Path, estimate: Callable[[], tuple[int, Any]]
) -> None:
    run_of(root, "small")
    run_of(root, "large", rows_in=10_000, seconds=50.0)
    code, told = estimate()
    assert (code, told["seconds"]) == (0, 25.0)


@pytest.mark.parametrize(
    "other", [{"batch": "rows/weekly"}, {"where": "aws"}, {"instance_type": "ml.m5.large"}]
)
def test_a_run_of_another_batch_place_or_instance_type_is_no_rate(
    root: Path, estimate: Callable[[], tuple[int, Any]], other: dict[str, str]
) -> None:
    run_of(root, "other", **other)
    assert estimate()[0] == 3


@pytest.mark.long
def test_a_file_goes_through_the_local_container(root: Path, batch: Servable) -> None:
    (root / "table.csv").write_text("1,2\n3,4\n5,6")
    assert batch("--local", "--input", "table.csv", "--output", "scores")[0] == 0
    assert (root / "scores" / "table.csv.out").read_text() == "3.0,6.0\n9.0,12.0\n15.0,18.0\n"
