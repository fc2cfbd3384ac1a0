"""`servable batch` against the local AWS, with a stand-in for the job's container."""

import json
from unittest.mock import Mock

import pytest

from servable.batch import command
from servable.batch import watch as watched
from servable.main import main
from servable.project import account as aws_account
from servable_local.aws.clock import ManualClock
from tests.servable.batch.deployed_batch import DeployedBatch, Servable, of_this_folder
from tests.servable.batch.test_batch_command import run_of
from tests.servable.batch.test_result import HOLDS
from tests.servable_local.aws.container_stand_in import MISTAKE
from tests.servable_local.aws.local_account import Account


@pytest.fixture(scope="module")
def project(accounts: Account, tmp_path_factory: pytest.TempPathFactory) -> DeployedBatch:
    root, account = tmp_path_factory.mktemp("batch") / "project", accounts.another()
    return DeployedBatch(root, account.aws, account=account.number, variables={"ECHO": "1"})


@pytest.fixture
def deployed(project: DeployedBatch, monkeypatch: pytest.MonkeyPatch) -> DeployedBatch:
    """The project, whose bucket is empty."""
    for key in project.keys(""):
        if key != "handled.tar.gz":
            project.s3.delete_object(Bucket=project.bucket, Key=key)
    monkeypatch.chdir(project.root)
    monkeypatch.setattr(watched, "_LOCAL_POLL_SECONDS", 0.01)
    for name, value in project.aws.environment(account=project.account).items():
        monkeypatch.setenv(name, value)
    return project


@pytest.fixture
def batch(deployed: DeployedBatch, capsys: pytest.CaptureFixture[str]) -> Servable:
    return of_this_folder(capsys)


@pytest.mark.long
def test_a_job_holds_if_each_of_its_objects_and_rows_has_a_result(
    deployed: DeployedBatch, batch: Servable, clock: ManualClock
) -> None:
    clock.advance(seconds=1)  # otherwise another test's job may be listed as the newest
    deployed.put("in/a.csv", b"1,2\n3,4\n")
    deployed.put("in/day/b.csv", b"5,6")
    code, output, _ = batch()
    rows = [line.split()[2] for line in output.splitlines() if line.startswith("rows ")]
    assert (code, rows) == (0, ["3", "3"]), output
    job = deployed.job()
    assert job is not None
    for name in ("a", "day/b"):
        deployed.s3.delete_object(Bucket=deployed.bucket, Key=f"out/{name}.csv.out")
    code, output, _ = batch("--attach", job["TransformJobName"])
    assert (code, "rows out               0   in 0 objects" in output) == (1, True), output
    deployed.put("in/b.csv", MISTAKE)
    code, output, _ = batch()
    found = f"{deployed.bucket}/in/b.csv" in output, "the model says no" in output
    assert (code, *found) == (1, True, True)


@pytest.mark.long
def test_a_trial_reads_a_copy_of_the_first_rows(deployed: DeployedBatch, batch: Servable) -> None:
    deployed.put("in/a.csv", b"1,2\n3,4\n")
    deployed.put("in/b.csv", b"5,6\n7,8\n")
    assert batch("--limit", "3")[0] == 0
    names = [key.split("/", 3)[3] for key in deployed.keys("out/")]
    assert names == ["out/a.csv.out", "out/b.csv.out"]
    assert deployed.read(deployed.keys("out/")[1]) == b"5,6\n"


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """The watch of a job that isn't run, and is complete at once."""
    watch = Mock()
    watch.return_value.fetch_result.return_value = HOLDS
    monkeypatch.setattr(command, "TransformWatch", watch)
    return watch


def test_a_job_reads_and_writes_what_the_call_says_with_the_deployed_model(
    deployed: DeployedBatch, batch: Servable, watch: Mock
) -> None:
    (model,) = deployed.client("sagemaker").list_models()["Models"]
    deployed.put("other/a.csv", b"1,2\n3,4\n")
    bucket = f"s3://{deployed.bucket}"
    paths = [("elsewhere/", None, ["in", "out"]), ("out/day/", None, ["in"]), ("out/", "1", ["in"])]
    for path, limit, notes in paths:
        trial = ["--limit", limit] if limit else []
        code, output, errors = batch(
            "--input", f"{bucket}/other/", "--output", f"{bucket}/{path}", *trial
        )
        _, job, _ = watch.call_args.args
        request = watch.call_args.kwargs["request"]
        source = request["TransformInput"]["DataSource"]["S3DataSource"]["S3Uri"]
        to = f"{bucket}/{path}servable-trial/{job}/" if limit else f"{bucket}/"
        assert source == f"{to}{'in' if limit else 'other'}/"
        target = f"{to}out/" if limit else f"{to}{path}"
        assert (request["TransformJobName"], request["ModelName"]) == (job, model["ModelName"])
        assert request["TransformOutput"]["S3OutputPath"] == target
        lines = [f"note: the role of nightly can access only {bucket}/{own}/" for own in notes]
        lines += [f"a copy of the first 1 rows is in {source}"] * bool(limit)
        lines.append(f"{job} writes to {target}; Ctrl-C leaves it running")
        assert errors.splitlines() == lines
        assert (code, output.splitlines()[0]) == (0, "job: Completed")
    (copy,) = deployed.keys("out/servable-trial/")
    assert deployed.read(copy) == b"1,2\n"
    assert watch.return_value.remove_trial.call_count == 3


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
    for name in ("job", "here"):
        (deployed.root / ".servable" / "batch" / f"{name}.json").unlink()
    monkeypatch.setattr(command, "MOST_COUNTED_BYTES", 400)
    code, output, _ = batch("--estimate", "--json")
    assert (code, json.loads(output)["rows"]) == (3, 100)
    monkeypatch.setattr(command, "MOST_COUNTED_BYTES", 399)
    code, output, _ = batch("--estimate")
    lines = output.splitlines()
    assert (code, lines[0]) == (3, "rows not counted in 2 objects, 0.0 MB")
    assert [line.partition(": ")[0] for line in lines[1:]] == ["cannot be told"] * 2


def test_what_cannot_be_done_in_the_account_is_told(
    deployed: DeployedBatch, batch: Servable, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, errors = batch("--estimate", "--input", "s3://none-of-ours/in/")
    assert (code, errors.startswith("servable batch: AWS rejected the call: ")) == (2, True), errors
    list_jobs = deployed.client("sagemaker").list_transform_jobs
    before = len(list_jobs()["TransformJobSummaries"])
    code, _, errors = batch()
    assert (code, "found no objects" in errors) == (2, True)
    assert len(list_jobs()["TransformJobSummaries"]) == before
    code, _, errors = batch("--attach", "nobody")
    assert (code, "there is no transform job nobody" in errors) == (3, True)
    text = (deployed.root / "environments" / "rows.toml").read_text()
    text = text.replace('name = "numbers"', 'name = "other"')
    other = deployed.root / "environments" / "other.toml"
    nobodys = text.replace(f'account = "{deployed.account}"', 'account = "000000000000"')
    for written, problem in (
        (text, "the stack other-endpoint is not deployed"),
        (nobodys, f"these credentials belong to account {deployed.account}"),
    ):
        other.write_text(written)
        with pytest.raises(SystemExit, match="2"):
            main(["batch", "other"])
        output, errors = capsys.readouterr()
        assert (output, problem in errors) == ("", True), errors
    other.unlink()


def test_an_interruption_says_whether_the_job_goes_on(
    batch: Servable, deployed: DeployedBatch, watch: Mock, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed.put("in/a.csv", b"1,2\n")
    watch.return_value.follow.side_effect = KeyboardInterrupt
    code, _, errors = batch()
    job = errors.split()[0]
    goes_on = f"{job} continues; `servable batch rows nightly --attach {job}` resumes following it"
    assert (code, goes_on in errors) == (130, True), errors
    assert f"`aws sagemaker stop-transform-job --transform-job-name {job}` stops it" in errors
    code, _, errors = batch("--attach", "older")
    assert (code, errors.startswith("older continues; ")) == (130, True), errors
    assert watch.call_args.kwargs == {"request": None}
    monkeypatch.setattr(command.BatchCommand, "_find_model", Mock(side_effect=KeyboardInterrupt))
    code, _, errors = batch()
    assert (code, errors.startswith("interrupted before rows-nightly-")) == (130, True)
