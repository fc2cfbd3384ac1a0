"""Temporary endpoints on the local AWS: made, bounded, deleted, and nothing else deleted."""

import datetime
import html
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from click.testing import CliRunner

from servable.load.command import load
from servable.measured.measurement import LoadError
from servable.measured.targets import prepare_deployed_target
from servable.measured.temporary import (
    PREFIX,
    TAG,
    BudgetSpentError,
    LiveVariant,
    TemporaryEndpoints,
    build_tags,
    describe_owner,
    is_abandoned,
    read_live_variant,
    remove_resource,
)
from tests.checkouts import ROOT, run_in
from tests.conftest import VALID
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long

PRICES = {"ml.c5.4xlarge": 0.816, "ml.c5.xlarge": 0.204}


@pytest.fixture(scope="module")
def account(accounts: Account) -> Account:
    """With the endpoint `ranker` deployed in it."""
    one = accounts.another()
    status = one.deploy(serving(one.put_archive(b"the model"), variables={"SIZE": "live"}))
    assert status == "CREATE_COMPLETE"
    return one


@pytest.fixture(scope="module")
def client(account: Account) -> Any:
    return account.client("sagemaker")


def endpoints(client: Any, budget_usd: float = 10.0, **more: Any) -> TemporaryEndpoints:
    return TemporaryEndpoints(
        client, budget_usd=budget_usd, usd_per_hour=PRICES.get, poll_seconds=0.02, **more
    )


@pytest.fixture(scope="module")
def live(client: Any) -> LiveVariant:
    return read_live_variant(client, "ranker")


def temporary_endpoints(client: Any) -> list[str]:
    found = [endpoint["EndpointName"] for endpoint in client.list_endpoints()["Endpoints"]]
    return [name for name in found if name.startswith(PREFIX)]


def temporary(client: Any) -> list[str]:
    """Whatever of ours is there, of any kind."""
    configs = client.list_endpoint_configs()["EndpointConfigs"]
    named = [config["EndpointConfigName"] for config in configs]
    named += [model["ModelName"] for model in client.list_models()["Models"]]
    return temporary_endpoints(client) + [name for name in named if name.startswith(PREFIX)]


def test_it_serves_the_live_model_with_other_variables_until_its_block_ends(
    client: Any, account: Account, live: LiveVariant
) -> None:
    heard: list[str] = []
    one = endpoints(client, told=heard.append)
    other = {"SIZE": "other"}
    with one.run_copy(live, variables=other, instance_type="ml.c5.xlarge") as name:
        runtime = account.client("sagemaker-runtime")
        answer = runtime.invoke_endpoint(EndpointName=name, Body=b"x", ContentType="text/csv")
        config = client.describe_endpoint_config(EndpointConfigName=name)
        arn = client.describe_endpoint(EndpointName=name)["EndpointArn"]
        tags = {tag["Key"] for tag in client.list_tags(ResourceArn=arn)["Tags"]}
        endpoints(client).sweep()
        assert temporary_endpoints(client) == [name]  # it is in use
        time.sleep(0.1)
    said = json.loads(answer["Body"].read())
    assert (said["archive"], said["variables"]["SIZE"]) == ("the model", "other")
    assert config["ProductionVariants"][0]["InstanceType"] == "ml.c5.xlarge"
    assert tags >= set(build_tags(datetime.datetime.now(datetime.UTC)))
    assert live.variables["SIZE"] == "live"
    assert one.spent_usd > 0.1 / 3600 * PRICES["ml.c5.xlarge"]
    assert [line.split(",")[0] for line in heard] == [f"deleting {name}"]
    assert temporary(client) == []

    with pytest.raises(KeyboardInterrupt), endpoints(client).run_copy(live):
        raise KeyboardInterrupt
    assert temporary(client) == []


def test_what_cannot_be_paid_or_compared_makes_nothing(client: Any, live: LiveVariant) -> None:
    with pytest.raises(BudgetSpentError), endpoints(client, budget_usd=0.1).run_copy(live):
        pass
    for kind, problem in (("ml.c5.9xlarge", "price"), ("ml.g5.xlarge", "is gpu")):
        with pytest.raises(LoadError, match=problem):
            endpoints(client).run_copy(live, instance_type=kind).__enter__()


def test_the_end_of_the_budget_deletes_it(
    client: Any, live: LiveVariant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable.measured.temporary._LEAST_SECONDS", 0.0)
    with endpoints(client, budget_usd=1e-6).run_copy(live):
        until(lambda: temporary_endpoints(client) == [])
    # An error in it is left to whoever leaves.
    one = endpoints(Failing(client, [failure("AccessDeniedException")]))
    one._end_at_budget("x")
    assert one.ended_by_budget


def test_after_a_kill_9_the_next_run_deletes_it(account: Account, client: Any) -> None:
    told = account.aws.environment(account=account.number)
    code = f"""
import boto3, time
from servable.measured.temporary import TemporaryEndpoints, read_live_variant
client = boto3.client("sagemaker", endpoint_url={account.aws.url!r})
one = TemporaryEndpoints(client, budget_usd=10, usd_per_hour=lambda kind: 1.0, poll_seconds=0.02)
with one.run_copy(read_live_variant(client, "ranker")):
    print("up", flush=True)
    time.sleep(60)
"""
    variables = {**os.environ, **told, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        run.send_signal(signal.SIGKILL)
    assert temporary(client)
    endpoints(client).sweep()
    assert temporary(client) == []


def test_the_sweep_leaves_what_lacks_a_mark_or_is_another_machine_s(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    past = build_tags(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
    renamed = {key.replace(TAG, "other"): value for key, value in past.items()}
    assert not is_abandoned("ranker", past, now)
    assert not is_abandoned(f"{PREFIX}mine", renamed, now)

    tags = build_tags(now + datetime.timedelta(hours=1))
    assert not is_abandoned(f"{PREFIX}x", tags | {"servable:owner": "elsewhere/1/1"}, now)
    monkeypatch.setattr(uuid, "getnode", lambda: 1)
    ended = f"{describe_owner().rsplit('/', 2)[0]}/{os.getpid()}/0"
    monkeypatch.setattr(uuid, "getnode", lambda: 2)
    assert not is_abandoned(f"{PREFIX}x", tags | {"servable:owner": ended}, now)


class Failing:
    """A client whose first calls fail."""

    def __init__(self, client: Any, failures: list[Exception]) -> None:
        self._client, self._failures = client, failures

    def __getattr__(self, name: str) -> Any:
        def call(**asked: str) -> Any:
            if self._failures:
                raise self._failures.pop(0)
            return getattr(self._client, name)(**asked)

        return call


def failure(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": code}}, "DescribeEndpoint")


def test_a_throttled_and_a_lost_call_leave_no_endpoint(client: Any, live: LiveVariant) -> None:
    lost = EndpointConnectionError(endpoint_url="https://x")
    with endpoints(client).run_copy(live) as name:
        remove_resource(Failing(client, [failure("ThrottlingException"), lost]), "Endpoint", name)
        assert temporary_endpoints(client) == []
    with pytest.raises(ClientError, match="AccessDenied"):
        remove_resource(Failing(None, [failure("AccessDeniedException")]), "Endpoint", "x")


def test_the_live_endpoint_is_asked_signed(account: Account, environment: Any) -> None:
    told = environment(VALID, **{"eu-west-1": "us-east-1", "111111111111": account.number})
    reached = prepare_deployed_target(told, account.open(), variant=None)
    wanted = (f"{account.aws.url}/endpoints/ranker/invocations", "us-east-1")
    assert (reached.target.url, reached.target.signing_region) == wanted


def test_servable_load_refuses_credentials_of_another_account(
    account: Account, environment: Any, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment(VALID, **{"eu-west-1": "us-east-1"})
    (project / "a.json").write_text("{}")
    for name, text in account.aws.environment(account=account.number).items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr("servable.load.command.enable_ctrl_c", lambda: None)
    monkeypatch.chdir(project)
    command = "prod --target deployed --body a.json"
    said = CliRunner().invoke(load, command.split(), standalone_mode=False)
    wanted = f"belong to account {account.number}, but the environment is 111111111111"
    assert (said.return_value, wanted in said.stderr) == (2, True)


def test_servable_load_makes_one_loads_it_and_deletes_it(
    account: Account, client: Any, environment: Any, project: Path
) -> None:
    environment(VALID, **{"eu-west-1": "us-east-1", "111111111111": account.number})
    (project / "a.json").write_text("{}")
    command = "load prod --target sagemaker --dollars 5 --body a.json --users 1 --json"
    more = "--warm-up-seconds 0.2 --step-seconds 0.6"
    told = account.aws.environment(account=account.number)
    words = [sys.executable, "-m", "servable", *f"{command} {more}".split()]
    variables = {**os.environ, **told, "PYTHONPATH": str(ROOT)}
    ran = run_in(project, *words, environment=variables)
    assert ran.stdout, ran.stderr
    (step,) = json.loads(ran.stdout)["steps"]
    assert (step["failed"], temporary(client)) == (0, []), ran.stderr


LOCUSTFILE = """\
from locust import between, task

from servable.load.users import EndpointUser


class Visitor(EndpointUser):
    wait_time = between(0.5, 2)

    @task
    def predict(self):
        self.client.post("/invocations", json={"instances": [[5.1, 3.3, 1.7, 0.5]]})
"""


@pytest.mark.parametrize(
    ("p99_ms", "code", "verdict"), [(2000, 0, "holds"), (0.1, 1, "does not hold")]
)
def test_a_locustfile_passes_or_fails_the_gate(
    account: Account, environment: Any, project: Path, monkeypatch: pytest.MonkeyPatch,
    p99_ms: float, code: int, verdict: str,
) -> None:  # fmt: skip
    environment(VALID, **{"eu-west-1": "us-east-1", "111111111111": account.number})
    (project / "locustfile.py").write_text(LOCUSTFILE)
    variables = account.aws.environment(account=account.number) | {"PYTHONPATH": str(ROOT)}
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr("servable.load.command.enable_ctrl_c", lambda: None)
    # A twentieth of the time, and a busy computer may send late.
    monkeypatch.setattr("servable.load.gate._LEAST_SECONDS", 6.0)
    monkeypatch.setattr("servable.load.gate._LEAST_REQUESTS", 480)
    monkeypatch.setattr("servable.measured.measurement.MOST_LAG_MS", 60_000.0)
    monkeypatch.chdir(project)
    command = "prod --target deployed --locustfile locustfile.py --gate --rates 80 --step-seconds 6"
    more = f"--warm-up-seconds 0.2 --p99-ms {p99_ms} --json --output run"
    ran = CliRunner().invoke(load, f"{command} {more}".split(), standalone_mode=False)
    found = json.loads(ran.stdout)
    (step,) = found["steps"]
    assert (ran.return_value, found["verdict"]) == (code, verdict), ran.stderr
    assert (step["from_due"], code or step["failed"]) == (True, code)  # a busy one may fail some
    page = html.unescape((project / "run" / "report.html").read_text(encoding="utf-8"))
    assert found["gate"]["lines"][0] in page
    assert "latency starts at sending" not in page
