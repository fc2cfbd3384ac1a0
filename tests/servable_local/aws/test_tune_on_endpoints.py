"""`servable tune --target sagemaker` on the local AWS: a temporary endpoint for each trial."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError
from click.testing import CliRunner

from infra.parameters.loading import ValidFile, load
from infra.parameters.placement import list_placements
from servable.measured.measurement import LoadError, Pace
from servable.measured.temporary import (
    BudgetSpentError,
    NotInServiceError,
    TemporaryEndpoints,
    read_live_variant,
)
from servable.tune.command import tune
from servable.tune.container_space import build_machines
from servable.tune.run import Run, TuneOptions, TuneProgress
from servable.tune.trials import LEDGER, TemporaryTrials
from tests.checkouts import ROOT
from tests.conftest import VALID, make_project, valid
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_temporary import temporary

pytestmark = pytest.mark.long

QUICK = Pace(warm_up_seconds=0.1, least_seconds=0.2, most_seconds=0.2)
WORKERS = "SAGEMAKER_GUNICORN_WORKERS"


@pytest.fixture(scope="module")
def account(accounts: Account) -> Account:
    """With the endpoint `ranker` deployed in it, as another tool would: a variable of its own."""
    one = accounts.another()
    archive = one.put_archive(b"the model")
    # Its knee is found in a few steps, and no core is busy for as long as it is asked.
    variables = {"OWN": "kept", "TAKES_SECONDS": "0.01"}
    assert one.deploy(serving(archive, variables=variables)) == "CREATE_COMPLETE"
    return one


@pytest.fixture(scope="module")
def prod(account: Account, tmp_path_factory: pytest.TempPathFactory) -> ValidFile:
    root = make_project(tmp_path_factory.mktemp("tuned"))
    (root / "a.json").write_text("{}")
    text = VALID.replace("eu-west-1", "us-east-1").replace("111111111111", account.number)
    text = text.replace("ml.c5.xlarge", "ml.c5.4xlarge")
    text = text.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    (root / "environments" / "prod.toml").write_text(text)
    (loaded,) = load(root, root / "environments")
    return valid(loaded)


Made = Callable[..., TemporaryTrials]


@pytest.fixture
def run(account: Account, prod: ValidFile) -> Run:
    (placement,) = list_placements(prod.environment)
    only, types = ("gunicorn_workers",), ("ml.c5.2xlarge",)
    options = TuneOptions(
        bodies=[], body_names=(), only=only, instance_types=types, account=account.open(),
        most_ms=5000.0, dollars=5.0,
    )  # fmt: skip
    silent = Mock(spec=TuneProgress)
    return Run(prod, placement, options, silent)


@pytest.fixture
def trials(run: Run) -> Iterator[Made]:
    def make(dollars: float = 5.0) -> TemporaryTrials:
        options = dataclasses.replace(run.options, dollars=dollars)
        return TemporaryTrials(dataclasses.replace(run, options=options))

    yield make
    shutil.rmtree(run.folder, ignore_errors=True)


def point(workers: int, kind: str = "ml.c5.4xlarge") -> dict[str, Any]:
    return {"instance_type": kind, "gunicorn_workers": workers}


def test_a_trial_s_endpoint_is_the_point_s_and_goes_with_it(trials: Made, account: Account) -> None:
    with trials() as one, one.serve(point(8, "ml.c5.2xlarge")) as reached:
        name = reached.target.url.split("/")[-2]
        live = read_live_variant(account.client("sagemaker"), name)
    assert (live.variables[WORKERS], live.variables["OWN"]) == ("8", "kept")
    assert live.config["InstanceType"] == "ml.c5.2xlarge"
    assert temporary(account.client("sagemaker")) == []


def test_what_earlier_runs_spent_is_of_the_same_budget(trials: Made, run: Run) -> None:
    run.folder.mkdir(parents=True, exist_ok=True)
    now = time.time()
    entry = {"name": "x", "usd_per_hour": 1.0, "began": now - 3600, "ended": now}
    (run.folder / LEDGER).write_text(json.dumps([entry]))
    with trials(dollars=1.1) as one, pytest.raises(BudgetSpentError), one.serve(point(8)):
        pass
    # One that was left costs until it is removed.
    (run.folder / LEDGER).write_text(json.dumps([entry | {"ended": None}]))
    one = trials()
    spent = one.ledger.usd
    time.sleep(0.05)
    assert 1.0 <= spent == one.ledger.usd


def test_a_failed_start_is_a_failed_trial(trials: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise NotInServiceError("x: is Failed: no ping")

    monkeypatch.setattr(TemporaryEndpoints, "_wait_until_in_service", failing)
    with trials() as one:
        found = one.measure_trial(point(8), 1.0)
    assert (found.value, found.failure) == (0.0, "x: is Failed: no ping")


@pytest.mark.parametrize(
    "seen",
    [
        NotInServiceError("x: is Deleting"),
        LoadError("nobody answers"),
        ClientError({"Error": {"Code": "ValidationException"}}, "DescribeEndpoint"),
    ],
    ids=lambda seen: type(seen).__name__,
)
def test_an_endpoint_that_the_budget_ends_while_it_starts_is_no_failed_trial(
    seen: Exception, trials: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(endpoints: TemporaryEndpoints, *_: object) -> None:
        endpoints.ended_by_budget = True
        raise seen

    monkeypatch.setattr(TemporaryEndpoints, "_wait_until_in_service", ended)
    with trials() as one, pytest.raises(BudgetSpentError):
        one.measure_trial(point(8), 1.0)


def test_a_type_of_another_device_is_refused(prod: ValidFile) -> None:
    (placement,) = list_placements(prod.environment)
    with pytest.raises(ValueError, match=r"a different kind of device \(gpu\)"):
        build_machines(prod, placement, instance_types=("ml.g5.xlarge",))


COMMAND = ["prod", "--target", "sagemaker", "--dollars", "5", "--p99-ms", "5000", "--json"]
COMMAND += ["--body", "a.json", "--setting", "gunicorn_workers", "--trials", "6", "--for", "cost"]


def test_killed_the_next_run_removes_the_endpoint_and_goes_on(
    account: Account, prod: ValidFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = account.aws.environment(account=account.number)
    words = [sys.executable, "-m", "servable", "tune", *COMMAND]
    variables = {**os.environ, **told, "PYTHONPATH": str(ROOT)}
    no = subprocess.DEVNULL
    first = subprocess.Popen(words, cwd=prod.root, env=variables, stdout=no, stderr=no)
    # Its model comes first: killed then, no endpoint would be left.
    until(lambda: len(account.client("sagemaker").list_endpoints()["Endpoints"]) > 1, 100)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert temporary(account.client("sagemaker"))
    for name in ("trial_pace", "curve_pace"):
        monkeypatch.setattr(TemporaryTrials, name, QUICK)
    # The machine is busy with tests: how late requests were sent is not what is asked here.
    monkeypatch.setattr("servable.measured.measurement.MOST_LAG_MS", 60_000.0)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.chdir(prod.root)
    for name, text in told.items():
        monkeypatch.setenv(name, text)
    words = [*COMMAND, "--instance-types", "ml.c5.2xlarge"]
    ran = CliRunner().invoke(tune, words, standalone_mode=False)
    assert "removed, left by an earlier run: Endpoint" in ran.stderr
    said = json.loads(ran.stdout)
    assert (said["relative"], said["trials"] >= 3) == (True, True)
    assert temporary(account.client("sagemaker")) == []
