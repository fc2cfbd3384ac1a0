"""Time and cost of a job in AWS, from a measured rate."""

from pathlib import Path

import pytest

from infra.parameters.batch.job import BatchJob, batch_job
from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from servable.batch.estimate import MeasuredRate, estimate, measured_rate
from tests.servable.batch.deployed_batch import FILE, project

RATE = MeasuredRate(rows_per_second=100.0, rows=50_000, source="a run")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path / "project")


def loaded(root: Path, text: str = FILE) -> tuple[Environment, BatchJob]:
    (root / "environments" / "rows.toml").write_text(text)
    (file,) = load(root, root / "environments", {}, "--set")
    assert isinstance(file, ValidFile)
    job = batch_job(file.environment, "nightly")
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
    told = estimate(environment, job, RATE, rows, sizes=[1] * len(rows), in_aws=True)
    assert told.seconds == seconds


def test_the_cost_is_of_every_instance_for_that_time(root: Path) -> None:
    environment, job = loaded(root, TWO)
    price = environment.prices.instance("ml.c5.xlarge", environment.region)
    assert price is not None
    told = estimate(environment, job, RATE, [360_000, 360_000], sizes=[1, 1], in_aws=True)
    assert told.usd == pytest.approx(2 * price.usd_per_hour)


def test_rows_that_were_not_counted_are_missing(root: Path) -> None:
    told = estimate(*loaded(root), RATE, None, sizes=[10**10], in_aws=True)
    assert ["not counted" in missing for missing in told.missing] == [True]


def test_the_rate_of_a_variant_holds_for_the_same_model_and_instance_type(root: Path) -> None:
    measured = "[variants.primary.scaling]\nmax_rps_per_instance = 50\n"
    environment, job = loaded(root, f"{FILE}{measured}[traffic]\nrows_per_request = 4\n")
    rate = measured_rate(root, "rows/nightly", environment, job, "aws")
    assert rate is not None
    assert rate.rows_per_second == 200.0
