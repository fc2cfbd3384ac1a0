"""`servable batch` against the local AWS, with a stand-in for the job's container."""

from pathlib import Path

import pytest

from servable.console import lines as console
from tests.servable.batch.deployed_batch import DeployedBatch, Servable, of_this_folder
from tests.servable_local.aws.container_stand_in import MISTAKE
from tests.servable_local.aws.local_account import Account


@pytest.fixture
def deployed(
    account: Account,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> DeployedBatch:
    """`request`: further variables of the stand-in."""
    variables = {"ECHO": "1"} | getattr(request, "param", {})
    deployed = DeployedBatch(
        tmp_path / "project", account.aws, account=account.number, variables=variables
    )
    monkeypatch.chdir(deployed.root)
    for name, value in account.aws.environment(account=account.number).items():
        monkeypatch.setenv(name, value)
    return deployed


@pytest.fixture
def batch(deployed: DeployedBatch, capsys: pytest.CaptureFixture[str]) -> Servable:
    return of_this_folder(capsys)


def test_a_table_is_counted_in_and_out(deployed: DeployedBatch, batch: Servable) -> None:
    deployed.put("in/a.csv", b"1,2\n3,4\n")
    deployed.put("in/day/b.csv", b"5,6")
    code, output, _ = batch()
    rows = [line.split()[2] for line in output.splitlines() if line.startswith("rows ")]
    assert (code, rows) == (0, ["3", "3"]), output


def test_a_trial_reads_a_copy_of_the_first_rows(deployed: DeployedBatch, batch: Servable) -> None:
    deployed.put("in/a.csv", b"1,2\n3,4\n")
    deployed.put("in/b.csv", b"5,6\n7,8\n")
    assert batch("--limit", "3")[0] == 0
    names = [key.split("/", 3)[3] for key in deployed.keys("out/")]
    assert names == ["out/a.csv.out", "out/b.csv.out"]
    assert deployed.read(deployed.keys("out/")[1]) == b"5,6\n"


def test_a_refused_row_is_told_with_its_object(deployed: DeployedBatch, batch: Servable) -> None:
    deployed.put("in/a.csv", b"1,2\n")
    deployed.put("in/b.csv", MISTAKE)
    code, output, _ = batch()
    assert (code, f"{deployed.bucket}/in/b.csv" in output, "the model says no" in output) == (
        1,
        True,
        True,
    )


@pytest.mark.parametrize("deployed", [{"TAKES_SECONDS": "0.6"}], indirect=True)
def test_the_progress_says_objects_rows_and_time(
    deployed: DeployedBatch, batch: Servable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "SILENT_SECONDS", 0.0)
    for name in ("a", "b"):
        deployed.put(f"in/{name}.csv", b"1,2\n3,4\n")
    said = [line for line in batch()[2].splitlines() if line.startswith("InProgress: 1 of 2")]
    assert "1 of 2 objects, 2 of 4 rows; " in said[-1]
    assert said[-1].endswith(" left")


def test_an_object_without_a_result_fails(deployed: DeployedBatch, batch: Servable) -> None:
    deployed.put("in/a.csv", b"1,2\n")
    batch()
    job = deployed.job()
    assert job is not None
    deployed.client("s3").delete_object(Bucket=deployed.bucket, Key="out/a.csv.out")
    code, output, _ = batch("--attach", job["TransformJobName"])
    assert (code, "rows out               0   in 0 objects" in output) == (1, True), output


def test_a_job_that_cannot_be_read_is_named(deployed: DeployedBatch, batch: Servable) -> None:
    code, _, errors = batch()
    assert (code, "no objects there" in errors, deployed.job()) == (2, True, None)
    code, _, errors = batch("--attach", "nobody")
    assert (code, "there is no transform job nobody" in errors) == (3, True)

    deployed.client("cloudformation").delete_stack(StackName="rows-endpoint")
    code, _, errors = batch()
    assert (code, "the stack rows-endpoint is not deployed" in errors) == (2, True), errors
