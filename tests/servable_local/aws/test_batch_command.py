"""`servable batch` against the local AWS, with a stand-in for the job's container."""

import json
from pathlib import Path

import pytest

from servable.batch import command
from servable.batch.watch import TransformWatch
from servable.console import lines as console
from servable.project import account as aws_account
from tests.servable.batch.deployed_batch import DeployedBatch, Servable, of_this_folder
from tests.servable.batch.test_batch_command import run_of
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


def test_a_place_outside_the_role_s_is_noted(deployed: DeployedBatch, batch: Servable) -> None:
    deployed.put("other/a.csv", b"1,2\n")
    elsewhere = f"s3://{deployed.bucket}/elsewhere/"
    code, _, errors = batch("--input", f"s3://{deployed.bucket}/other/", "--output", elsewhere)
    notes = [line for line in errors.splitlines() if line.startswith("note: ")]
    assert notes == [
        f"note: the role of nightly can access only s3://{deployed.bucket}/{own}/"
        for own in ("in", "out")
    ]
    assert (code, deployed.keys("elsewhere/")) == (0, ["elsewhere/a.csv.out"])
    below = f"s3://{deployed.bucket}/out/day/"
    code, _, errors = batch("--input", f"s3://{deployed.bucket}/other/", "--output", below)
    assert (code, errors.count("note: ")) == (0, 1)


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


def test_an_estimate_in_aws_is_of_its_rate_and_price(
    deployed: DeployedBatch, batch: Servable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aws_account.Account, "has_custom_endpoint", False)
    deployed.put("in/a.csv", b"1,2\n" * 60)
    deployed.put("in/b.csv", b"1,2\n" * 40)
    run_of(deployed.root, "job", where="aws", rows_in=1000, seconds=100.0)
    run_of(deployed.root, "here", where="local AWS", rows_in=2000, seconds=1.0)
    code, output, _ = batch("--estimate")
    assert (code, output.splitlines()) == (0, [
        "100 rows in 2 objects, 0.0 MB",
        "time  about 10 s plus 3 to 5 minutes to start instances, which isn't billed",
        "cost  about $0.0006: 1 x ml.c5.xlarge at $0.204 an hour (us (region not stated))",
        "from  10 rows/s of one instance: job, aws",
        "      of 1,000 rows only; longer runs are faster per row",
    ])  # fmt: skip
    code, output, _ = batch("--estimate", "--json", "--limit", "40")
    assert (code, json.loads(output)["rows"]) == (0, 40)
    monkeypatch.setattr(aws_account.Account, "has_custom_endpoint", True)
    assert json.loads(batch("--estimate", "--json")[1])["rate"]["source"] == "here, local AWS"


def test_an_estimate_of_what_is_too_large_or_unmeasured_cannot_be_told(
    deployed: DeployedBatch, batch: Servable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        deployed.put(f"in/{name}.csv", b"1,2\n")
    monkeypatch.setattr(command, "MOST_COUNTED_BYTES", 8)
    code, output, _ = batch("--estimate", "--json")
    assert (code, json.loads(output)["rows"]) == (3, 2)
    monkeypatch.setattr(command, "MOST_COUNTED_BYTES", 7)
    code, output, _ = batch("--estimate")
    lines = output.splitlines()
    assert (code, lines[0]) == (3, "rows not counted in 2 objects, 0.0 MB")
    assert [line.partition(": ")[0] for line in lines[1:]] == ["cannot be told"] * 2


def test_without_the_account_s_credentials_nothing_is_asked_of_it(
    deployed: DeployedBatch, batch: Servable
) -> None:
    file = deployed.root / "environments" / "rows.toml"
    text = file.read_text()
    file.write_text(text.replace(f'account = "{deployed.account}"', 'account = "000000000000"'))
    code, output, errors = batch("--attach", "job")
    assert (code, output) == (2, "")
    assert f"these credentials belong to account {deployed.account}" in errors


def test_what_aws_refuses_is_told_with_the_exit_code_2(batch: Servable) -> None:
    code, _, errors = batch("--estimate", "--input", "s3://none-of-ours/in/")
    assert (code, errors.startswith("servable batch: AWS rejected the call: ")) == (2, True), errors


def test_an_interruption_says_whether_the_job_goes_on(
    batch: Servable, deployed: DeployedBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    deployed.put("in/a.csv", b"1,2\n")
    monkeypatch.setattr(TransformWatch, "follow", interrupt)
    code, _, errors = batch()
    job = errors.split()[0]
    goes_on = f"{job} continues; `servable batch rows nightly --attach {job}` resumes following it"
    assert (code, goes_on in errors) == (130, True), errors
    assert f"`aws sagemaker stop-transform-job --transform-job-name {job}` stops it" in errors
    monkeypatch.setattr(command.BatchCommand, "_find_model", interrupt)
    code, _, errors = batch()
    assert (code, errors.startswith("interrupted before rows-nightly-")) == (130, True)


def test_a_job_that_cannot_be_read_is_named(deployed: DeployedBatch, batch: Servable) -> None:
    code, _, errors = batch()
    assert (code, "found no objects" in errors, deployed.job()) == (2, True, None)
    code, _, errors = batch("--attach", "nobody")
    assert (code, "there is no transform job nobody" in errors) == (3, True)

    deployed.client("cloudformation").delete_stack(StackName="rows-endpoint")
    code, _, errors = batch()
    assert (code, "the stack rows-endpoint is not deployed" in errors) == (2, True), errors
