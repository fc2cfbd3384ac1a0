"""`servable batch`: what is refused before anything runs, and estimates of measured runs."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from infra.parameters.batch.job import find_batch_job
from infra.parameters.loading import load
from servable.batch import command
from servable.batch.local_run import LocalBatch
from servable.batch.objects import LOCAL_CONTAINER, LocalFile
from servable.batch.result import BatchResult
from servable_local.container.launch import LaunchError
from tests.conftest import valid
from tests.servable.batch.deployed_batch import BUCKET, FILE, Servable, of_this_folder, project


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = project(tmp_path / "project")
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def batch(root: Path, capsys: pytest.CaptureFixture[str]) -> Servable:
    return of_this_folder(capsys)


def test_wrong_use_is_refused(batch: Servable) -> None:
    cases: list[tuple[list[str], str]] = [
        (["weekly"], "has no [batch.weekly]; allowed: nightly"),
        (["--attach", "job", "--limit", "5"], "remove the other options"),
        (["--input", "table.csv"], "add --local for a file on this computer"),
        (["--local", "--input", "none.csv", "--output", "out"], "no such file or folder"),
        (["--local", "--input", "."], "give --output FOLDER"),
        (["--local", "--input", "s3://a/in/", "--output", "s3://a/in/out/"], "inside the input"),
        (["--input", f"s3://{BUCKET}/"], "inside the input"),
        (["--attach", "job", "--estimate"], "remove the other options"),
        (["--attach", "job", "--output", "s3://a/out/"], "remove the other options"),
        (["--local", "--input", ".", "--output", "s3://a/out/"], "give --output FOLDER"),
        (["--output", "s3://a"], "write s3://BUCKET/PREFIX/"),
        (["--output", "s3:///out/"], "write s3://BUCKET/PREFIX/"),
        (["--output", f"s3://{BUCKET}/in"], "inside the input"),
        (["--limit", "0"], "0 is not in the range x>=1"),
    ]
    for arguments, problem in cases:
        code, _, errors = batch(*arguments)
        assert (code, problem in errors) == (2, True), errors


def test_a_wrong_file_runs_nothing_and_a_job_s_name_is_used_once(
    root: Path, batch: Servable
) -> None:
    second = FILE[FILE.index("[batch.nightly]") :].replace("nightly", "weekly")
    for text, options, problem in (
        (FILE + second, [], "pass one of nightly, weekly"),
        (FILE.partition("[batch.nightly]")[0], [], "rows.toml has no [batch.NAME]"),
        (
            FILE.replace("ml.c5.xlarge", "ml.c5.xlarg"),
            [],
            "`servable check rows` shows the problem",
        ),
        (FILE.replace('"model"', '"nowhere"'), ["--estimate"], "nowhere"),
    ):
        (root / "environments" / "rows.toml").write_text(text)
        code, _, errors = batch(*options)
        assert (code, problem in errors) == (2, True), errors

    (file,) = load(root, root / "environments", {}, "--set")
    job = find_batch_job(valid(file).environment, "nightly")
    assert job is not None
    names = []
    for name in ("nightly", "a_long-name" * 9):
        named = dataclasses.replace(job, name=name)
        run = command.BatchCommand(loaded=valid(file), job=named, again="")
        names += [run._create_job_name() for _ in range(2)]
    assert len({*names}) == 4
    for name in names:
        assert re.fullmatch(r"rows-(nightly|a-long-name[a-z-]*)-\d{8}-\d{6}-[0-9a-f]{4}", name)
        assert len(name) <= 63
    assert len(names[3]) > 60


# --- the estimate


def run_of(root: Path, job: str, **changed: Any) -> None:
    run = {
        "job": job, "batch": "rows/nightly", "where": "local container", "instance_type": "ml.c5.xlarge",
        "instances": 1, "objects_in": 1, "rows_in": 1000, "seconds": 10.0,
    }  # fmt: skip
    folder = root / ".servable" / "batch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{job}.json").write_text(json.dumps(run | changed))


def test_the_time_follows_from_the_largest_run_of_this_batch_place_and_instance_type(
    root: Path, batch: Servable
) -> None:
    (root / "table.csv").write_text("1,2\n" * 5000)

    def estimate() -> tuple[int, Any, int]:
        code, output, _ = batch("--local", "--input", "table.csv", "--estimate", "--json")
        told = json.loads(output)
        return code, told["seconds"], len(told["missing"])

    assert estimate() == (3, None, 1)
    run_of(root, "weekly", batch="rows/weekly")
    run_of(root, "aws", where="aws")
    run_of(root, "other", instance_type="ml.m5.large")
    assert estimate() == (3, None, 1)
    run_of(root, "small")
    run_of(root, "large", rows_in=10_000, seconds=50.0)
    assert estimate() == (0, 25.0, 0)


@pytest.mark.long
def test_a_file_goes_through_the_local_container(root: Path, batch: Servable) -> None:
    (root / "table.csv").write_text("1,2\n3,4\n5,6")
    assert batch("--local", "--input", "table.csv", "--output", "scores")[0] == 0
    assert (root / "scores" / "table.csv.out").read_text() == "3.0,6.0\n9.0,12.0\n15.0,18.0\n"


# --- with files of this computer


def test_files_go_through_the_container_into_the_output(
    root: Path, batch: Servable, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[LocalFile], int | None, str, bool]] = []

    def run(self: LocalBatch, files: list[LocalFile], limit: int | None) -> BatchResult:
        seen.append((files, limit, self._log.name, self._served.archive is not None))
        rows = 2 if limit else 1
        return BatchResult(
            job="job", status="Stopped" if limit else "Completed", where=LOCAL_CONTAINER, objects_in=1,
            objects_out=1, bytes_in=8, rows_in=2, rows_out=rows, seconds=1.0, output="out",
            interrupted=limit is not None,
        )  # fmt: skip

    monkeypatch.setattr(LocalBatch, "run", run)
    (root / "table.csv").write_text("1,2\n3,4\n")
    call = ("--local", "--input", "table.csv", "--output", "out")
    code, output, _ = batch(*call, "--json")
    told = json.loads(output)
    assert (code, told["rows_in"], told["rows_out"], told["holds"]) == (1, 2, 1, False)
    code, _, errors = batch(*call, "--limit", "5")
    said = "interrupted; run the same command again to recreate every result\n"
    assert (code, errors) == (130, said)
    code, output, _ = batch("--local", "--input", "table.csv", "--estimate", "--limit", "1")
    assert (code, output.splitlines()) == (0, [
        "1 rows in 1 object, 0.0 MB",
        "time  about 1 s",
        "from  2 rows/s of one instance: job, local container",
        "      of 2 rows only; longer runs are faster per row",
    ])  # fmt: skip
    table, log = Path("table.csv"), "container.log"
    assert seen == [
        ([LocalFile(table, Path("out/table.csv.out"))], None, log, True),
        ([LocalFile(table, Path("out/servable-trial/table.csv.out"))], 5, log, True),
    ]
    monkeypatch.setattr(LocalBatch, "run", Mock(side_effect=LaunchError("it ended")))
    code, _, errors = batch(*call)
    assert (code, "the container didn't start: it ended" in errors) == (2, True)
