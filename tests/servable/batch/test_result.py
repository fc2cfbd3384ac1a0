"""The end of a job: what holds, how failed requests are told; time and cost, from a measured rate."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.batch.job import BatchJob, find_batch_job
from infra.parameters.environment import Environment
from infra.parameters.loading import load
from servable.batch.result import (
    BatchResult,
    FailedRequest,
    MeasuredRate,
    estimate_batch,
    find_measured_rate,
    parse_failures,
    save_rate,
)
from tests.conftest import valid
from tests.servable.batch.deployed_batch import FILE, project

HOLDS = BatchResult(
    job="job", status="Completed", where="aws", instance_type="ml.c5.xlarge", objects_in=2, objects_out=2,
    bytes_in=10, rows_in=4, rows_out=4, seconds=90.0, usd=0.01, output="s3://bucket/out/",
)  # fmt: skip
AT = "2026-11-28T03:00:00.000:[sagemaker logs]: tables/in/"


def test_a_job_holds_if_every_object_and_counted_row_has_its_answer() -> None:
    cases: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"status": "Failed"}, False),
        ({"objects_out": 1}, False),
        ({"rows_out": 3}, False),
        ({"rows_out": 5}, False),
        ({"rows_out": None, "not_counted": "answers are arrays"}, True),
    ]
    for change, holds in cases:
        assert dataclasses.replace(HOLDS, **change).is_complete == holds

    told = dataclasses.replace(HOLDS, rows_out=3).as_object()
    assert (told["holds"], told["rows_out"], told["output"]) == (False, 3, "s3://bucket/out/")
    assert HOLDS.as_object()["holds"] is True


def test_the_log_s_lines_of_an_object_are_one_failure_with_the_container_s_words_or_none() -> None:
    messages = [
        "MaxConcurrentTransforms=1, MaxPayloadInMB=6",
        f"{AT}a.csv: ClientError: 400",
        f"{AT}a.csv: ",
        f"{AT}a.csv: Message:",
        f'{AT}a.csv: {{"error": "x: holds \\"five\\", no number"}}',
        f"{AT}b.csv: Unable to get response from algorithm",
    ]
    a, b = parse_failures(messages)
    assert (a.place, a.kind, a.message) == (
        "tables/in/a.csv", "ClientError: 400", 'x: holds "five", no number')  # fmt: skip
    said = "Unable to get response from algorithm"
    assert b == FailedRequest(place="tables/in/b.csv", kind=said, message="")
    for texts, message in [
        (["ClientError: 400", "", "Message:", '{"error": "no', 'number"}'], "no number"),
        (["ClientError: 400", "Message:", "[1]", "", "2"], "[1] 2"),
        (["ClientError: 400", "not a message"], ""),
    ]:
        (failed,) = parse_failures(f"{AT}a.csv: {text}" for text in texts)
        assert (failed.kind, failed.message) == ("ClientError: 400", message)


def test_the_table_of_the_end_says_what_is_known_and_what_is_not() -> None:
    known = dataclasses.replace(
        HOLDS, rows_in=4_000, rows_out=4_000, seconds_with_start=300.0, price="one at $0.2 an hour"
    )
    assert list(known.format_lines()) == [
        "job: Completed",
        "rows in            4,000   in 2 objects",
        "rows out           4,000   in 2 objects",
        "failed                 0",
        "time          1 min 30 s   5 min 0 s including the start of instances",
        "cost             $0.0100   one at $0.2 an hour",
        "results      s3://bucket/out/",
    ]

    failed = (FailedRequest(place="a.csv", kind="ClientError: 400", message=""),)
    unknown = dataclasses.replace(
        HOLDS, status="Failed", reason="it ended", objects_out=1, rows_out=None, failed=failed,
        not_counted="answers are arrays", seconds=None, usd=None, price="no price",
    )  # fmt: skip
    assert list(unknown.format_lines()) == [
        "job: Failed: it ended",
        "rows in                4   in 2 objects",
        "rows out     not counted   in 1 object",
        f"{'':27}answers are arrays",
        "failed                 1",
        f"{'':23}1   ClientError: 400",
        f"{'':27}a.csv",
        f"{'':27}to see which rows failed, download the file and run --local --input FILE",
        "cost           not known   no price",
        "results      s3://bucket/out/",
    ]
    at_home = dataclasses.replace(unknown, instance_type=None)
    assert not [line for line in at_home.format_lines() if "download the file" in line]


def test_failures_are_told_by_kind_from_the_most_frequent_with_the_first_few() -> None:
    failed = tuple(
        FailedRequest(place=f"row {number}", kind="ClientError: 400", message=message)
        for number, message in enumerate(["rare", "often", "often", "often", "often"])
    )
    lines = list(dataclasses.replace(HOLDS, status="Failed", failed=failed).format_lines())
    often, rare = (number for number, line in enumerate(lines) if "ClientError" in line)
    assert lines[often].split() == ["4", "ClientError:", "400:", "often"]
    assert lines[often + 1] == f"{'':27}row 1, row 2, row 3 and 1 more"
    assert lines[rare].split() == ["1", "ClientError:", "400:", "rare"]
    *_, last = dataclasses.replace(HOLDS, rows_out=3).format_lines()
    assert "an empty line has no response" in last


# --- an estimate

RATE = MeasuredRate(rows_per_second=100.0, rows=50_000, source="a run")
TWO = FILE.replace("max_concurrent = 2", "instances = 2")
RUN = dataclasses.replace(HOLDS, instances=4, rows_in=1000, rows_out=1000, seconds=10.0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path / "project")


def loaded(root: Path, text: str = FILE) -> tuple[Environment, BatchJob]:
    (root / "environments" / "rows.toml").write_text(text)
    (file,) = load(root, root / "environments", {}, "--set")
    environment = valid(file).environment
    job = find_batch_job(environment, "nightly")
    assert job is not None
    return environment, job


def test_instances_share_the_objects(root: Path) -> None:
    for text, rows, seconds in (
        (FILE, [1000, 1000], 20.0),
        (TWO, [1000, 1000], 10.0),
        (TWO, [2000], 20.0),  # an object is never divided
        (TWO, [1500, 500], 15.0),
        (FILE, [1], 1.0),  # no estimate is below a second
    ):
        sizes = [1] * len(rows)
        told = estimate_batch(*loaded(root, text), RATE, rows, sizes=sizes, in_aws=True)
        assert told.seconds == seconds
    told = estimate_batch(*loaded(root), RATE, None, sizes=[10**10], in_aws=True)
    (missing,) = told.missing
    assert "weren't counted" in missing


def test_the_cost_is_of_every_instance_for_that_time_where_the_type_has_a_price(root: Path) -> None:
    environment, job = loaded(root, TWO)
    price = environment.prices.find_instance_price("ml.c5.xlarge", environment.region)
    assert price is not None
    told = estimate_batch(environment, job, RATE, [360_000, 360_000], sizes=[1, 1], in_aws=True)
    assert told.usd == pytest.approx(2 * price.usd_per_hour)

    environment, job = loaded(root)
    batch = job.batch.model_copy(update={"instance_type": "ml.x9.big"})
    other = dataclasses.replace(job, batch=batch)
    told = estimate_batch(environment, other, RATE, [1000], sizes=[1], in_aws=True)
    assert (told.seconds, told.usd) == (10.0, None)
    assert ["no price of ml.x9.big" in missing for missing in told.missing] == [True]
    assert estimate_batch(environment, other, RATE, [1000], sizes=[1], in_aws=False).missing == ()
    (_, *_, last) = told.format_lines()
    assert last.startswith("cannot be told: no price of ml.x9.big is known")


def test_the_rate_of_a_variant_holds_for_its_rows_on_the_same_instance_type_in_aws(
    root: Path,
) -> None:
    measured = "[variants.primary.scaling]\nmax_rps_per_instance = 50\n"
    traffic = "[traffic]\nrows_per_request = 4\n"
    environment, job = loaded(root, FILE + measured + traffic)
    rate = find_measured_rate(root, "rows/nightly", environment, job, "aws")
    assert (rate and rate.rows_per_second) == 200.0
    larger = FILE.replace("ml.c5.xlarge", "ml.c5.2xlarge", 1)
    for text, where in (
        (FILE + traffic, "aws"),
        (FILE + measured, "aws"),
        (FILE + measured + traffic, "local AWS"),
        (larger + measured + traffic, "aws"),
    ):
        assert find_measured_rate(root, "rows/nightly", *loaded(root, text), where) is None


def test_the_rate_of_a_run_in_aws_is_of_the_instances_that_had_an_object(root: Path) -> None:
    environment, job = loaded(root)
    find = partial(find_measured_rate, root, "rows/nightly", environment, job)
    save_rate(root, "rows/nightly", job, RUN)
    assert find("aws") == MeasuredRate(rows_per_second=50.0, rows=1000, source="job, aws")
    assert find("local AWS") is None
    local = dataclasses.replace(RUN, job="local", where="local AWS", instance_type=None)
    save_rate(root, "rows/nightly", job, local)
    found = MeasuredRate(rows_per_second=100.0, rows=1000, source="local, local AWS")
    assert find("local AWS") == found
    changes: list[dict[str, Any]] = [
        {"status": "Failed"}, {"rows_in": None}, {"rows_in": 0}, {"seconds": None}
    ]  # fmt: skip
    for change in changes:
        save_rate(root, "rows/nightly", job, dataclasses.replace(RUN, job="none", **change))
    assert not list(root.rglob("none.json"))


def test_an_estimate_on_this_computer_has_one_instance_and_costs_nothing(root: Path) -> None:
    told = estimate_batch(*loaded(root, TWO), RATE, [600, 400], sizes=[3, 4], in_aws=False)
    assert (told.seconds, told.usd, told.missing) == (10.0, None, ())
    assert (told.rows, told.objects, told.bytes_in) == (1000, 2, 7)
    assert list(told.format_lines()) == [
        "1,000 rows in 2 objects, 0.0 MB", "time  about 10 s", "from  100 rows/s of one instance: a run"
    ]  # fmt: skip
    for rows, is_short in ((9_999, True), (10_000, False)):
        rate = dataclasses.replace(RATE, rows=rows)
        told = estimate_batch(*loaded(root), rate, [10], sizes=[1], in_aws=True)
        line = f"      of {rows:,} rows only; longer runs are faster per row"
        assert (line in told.format_lines()) == is_short
