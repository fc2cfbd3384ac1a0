"""Time and cost of a job in AWS, from a measured rate."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.batch.job import BatchJob, find_batch_job
from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from servable.batch.result import (
    BatchResult,
    MeasuredRate,
    estimate_batch,
    find_measured_rate,
    save_rate,
)
from tests.servable.batch.deployed_batch import FILE, project

RATE = MeasuredRate(rows_per_second=100.0, rows=50_000, source="a run")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path / "project")


def loaded(root: Path, text: str = FILE) -> tuple[Environment, BatchJob]:
    (root / "environments" / "rows.toml").write_text(text)
    (file,) = load(root, root / "environments", {}, "--set")
    assert isinstance(file, ValidFile)
    job = find_batch_job(file.environment, "nightly")
    assert job is not None
    return file.environment, job


TWO = FILE.replace("max_concurrent = 2", "instances = 2")


@pytest.mark.parametrize(
    ("text", "rows", "seconds"),
    [
        (FILE, [1000, 1000], 20.0),
        (TWO, [1000, 1000], 10.0),
        (TWO, [2000], 20.0),  # an object is never divided
        (TWO, [1500, 500], 15.0),
    ],
)
def test_instances_share_the_objects(
    root: Path, text: str, rows: list[int], seconds: float
) -> None:
    environment, job = loaded(root, text)
    told = estimate_batch(environment, job, RATE, rows, sizes=[1] * len(rows), in_aws=True)
    assert told.seconds == seconds


def test_the_cost_is_of_every_instance_for_that_time(root: Path) -> None:
    environment, job = loaded(root, TWO)
    price = environment.prices.find_instance_price("ml.c5.xlarge", environment.region)
    assert price is not None
    told = estimate_batch(environment, job, RATE, [360_000, 360_000], sizes=[1, 1], in_aws=True)
    assert told.usd == pytest.approx(2 * price.usd_per_hour)


def test_rows_that_were_not_counted_are_missing(root: Path) -> None:
    told = estimate_batch(*loaded(root), RATE, None, sizes=[10**10], in_aws=True)
    assert ["weren't counted" in missing for missing in told.missing] == [True]


def test_the_rate_of_a_variant_holds_for_the_same_model_and_instance_type(root: Path) -> None:
    measured = "[variants.primary.scaling]\nmax_rps_per_instance = 50\n"
    environment, job = loaded(root, f"{FILE}{measured}[traffic]\nrows_per_request = 4\n")
    rate = find_measured_rate(root, "rows/nightly", environment, job, "aws")
    assert rate is not None
    assert rate.rows_per_second == 200.0


RUN = BatchResult(
    job="job", status="Completed", where="aws", instance_type="ml.c5.xlarge", instances=4, objects_in=2,
    objects_out=2, bytes_in=10, rows_in=1000, rows_out=1000, seconds=10.0, output="s3://bucket/out/",
)  # fmt: skip


def test_the_rate_of_a_run_in_aws_is_of_the_instances_that_had_an_object(root: Path) -> None:
    environment, job = loaded(root)
    save_rate(root, "rows/nightly", job, RUN)
    rate = find_measured_rate(root, "rows/nightly", environment, job, "aws")
    assert rate == MeasuredRate(rows_per_second=50.0, rows=1000, source="job, aws")
    assert find_measured_rate(root, "rows/nightly", environment, job, "local AWS") is None
    local = dataclasses.replace(RUN, job="local", where="local AWS", instance_type=None)
    save_rate(root, "rows/nightly", job, local)
    rate = find_measured_rate(root, "rows/nightly", environment, job, "local AWS")
    assert rate == MeasuredRate(rows_per_second=100.0, rows=1000, source="local, local AWS")


@pytest.mark.parametrize(
    "change", [{"status": "Failed"}, {"rows_in": None}, {"rows_in": 0}, {"seconds": None}]
)
def test_a_run_without_a_rate_is_not_kept(root: Path, change: dict[str, Any]) -> None:
    _, job = loaded(root)
    save_rate(root, "rows/nightly", job, dataclasses.replace(RUN, **change))
    assert not list(root.rglob("job.json"))


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("[traffic]\nrows_per_request = 4\n", "aws"),
        ("[variants.primary.scaling]\nmax_rps_per_instance = 50\n", "aws"),
        ("[variants.primary.scaling]\nmax_rps_per_instance = 50\n[traffic]\nrows_per_request = 4\n",
         "local AWS"),
    ],
)  # fmt: skip
def test_without_a_variant_s_measured_rows_in_aws_there_is_no_rate(
    root: Path, more: str, where: str
) -> None:
    assert find_measured_rate(root, "rows/nightly", *loaded(root, f"{FILE}{more}"), where) is None


def test_a_variant_on_another_instance_type_is_no_rate(root: Path) -> None:
    more = (
        "[variants.primary.scaling]\nmax_rps_per_instance = 50\n[traffic]\nrows_per_request = 4\n"
    )
    text = FILE.replace("ml.c5.xlarge", "ml.c5.2xlarge", 1) + more
    assert find_measured_rate(root, "rows/nightly", *loaded(root, text), "aws") is None


def test_an_estimate_on_this_computer_has_one_instance_and_costs_nothing(root: Path) -> None:
    told = estimate_batch(*loaded(root, TWO), RATE, [600, 400], sizes=[3, 4], in_aws=False)
    assert (told.seconds, told.usd, told.missing) == (10.0, None, ())
    assert (told.rows, told.objects, told.bytes_in) == (1000, 2, 7)
    assert list(told.format_lines()) == [
        "1,000 rows in 2 objects, 0.0 MB", "time  about 10 s", "from  100 rows/s of one instance: a run"
    ]  # fmt: skip


def test_no_estimate_is_below_a_second(root: Path) -> None:
    assert estimate_batch(*loaded(root), RATE, [1], sizes=[1], in_aws=True).seconds == 1.0


def test_an_instance_type_without_a_price_leaves_the_cost_unknown(root: Path) -> None:
    environment, job = loaded(root)
    other = dataclasses.replace(
        job, batch=job.batch.model_copy(update={"instance_type": "ml.x9.big"})
    )
    told = estimate_batch(environment, other, RATE, [1000], sizes=[1], in_aws=True)
    assert (told.seconds, told.usd) == (10.0, None)
    assert ["no price of ml.x9.big" in missing for missing in told.missing] == [True]
    assert estimate_batch(environment, other, RATE, [1000], sizes=[1], in_aws=False).missing == ()
    (_, *_, last) = told.format_lines()
    assert last.startswith("cannot be told: no price of ml.x9.big is known")


def test_the_first_rows_of_a_short_run_are_told(root: Path) -> None:
    for rows, told in ((9_999, True), (10_000, False)):
        rate = dataclasses.replace(RATE, rows=rows)
        lines = list(
            estimate_batch(*loaded(root), rate, [10], sizes=[1], in_aws=True).format_lines()
        )
        assert (f"      of {rows:,} rows only; longer runs are faster per row" in lines) == told
