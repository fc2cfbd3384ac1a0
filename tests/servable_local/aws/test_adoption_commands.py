"""`servable init --from-endpoint` and `servable plan --adopt`, as somebody types them."""

import json
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from servable.init.command import init
from servable.plan.command import plan
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.live_endpoints import LIVE, LiveEndpoint
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long


class Folder:
    """A folder that is no project yet, and a shell whose credentials are an account's."""

    def __init__(self, root: Path, live: LiveEndpoint) -> None:
        self.root, self.live = root, live
        self.number = live.account.number

    def run(self, command: object, *arguments: str) -> Result:
        return CliRunner().invoke(command, arguments, standalone_mode=False)  # type: ignore[arg-type]

    def init(self, *arguments: str) -> Result:
        return self.run(init, *arguments, "--account", self.number, "--region", "us-east-1")


@pytest.fixture(scope="module")
def live(embedded: LocalAws, launcher: Launcher) -> LiveEndpoint:
    """Scaled, with data capture, a secret among its variables; no test changes it."""
    live = LiveEndpoint(Account(embedded, launcher))
    for name in ("capture", "own variables and a secret", "tracking"):
        LIVE[name](live)
    live.make()
    return live


@pytest.fixture
def folder(
    tmp_path: Path, embedded: LocalAws, live: LiveEndpoint, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    for name, value in embedded.environment(account=live.account.number).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path, live)


def adopted(folder: Folder, *more: str) -> Path:
    ran = folder.init("--from-endpoint", "ranker", "--name", "dev", *more)
    assert ran.return_value == 0, ran.output
    return folder.root / "environments" / "dev.toml"


def test_init_writes_the_file_of_a_live_endpoint_without_secrets(folder: Folder) -> None:
    (folder.root / "request.json").write_text('{"inputs": [1]}')
    file = adopted(folder, "--request", "request.json")
    text = file.read_text()
    assert ('name = "ranker"' in text, "hunter2" in text) == (True, False)
    answer = json.loads((folder.root / "golden" / "dev" / "answer.json").read_text())
    assert answer["body"] == '{"inputs": [1]}'  # what the stand-in was sent
    file.write_text("mine")
    folder.init("--from-endpoint", "ranker", "--name", "dev")
    assert file.read_text() == "mine"
    ran = folder.init("--from-endpoint", "ranker", "--name", "other", "--json")
    listed = json.loads(ran.stdout)["not_carried"]
    lost = [row["where"].rpartition(" ")[2] for row in listed if row["effect"] == "lost"]
    assert lost == ["API_TOKEN", "DB_PASSWORD"]


def test_a_multi_model_endpoint_is_written_with_its_models(
    folder: Folder, embedded: LocalAws, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveEndpoint(Account(embedded, launcher))
    for name in ("multi-model", "capture"):
        LIVE[name](live)
    live.make()
    for name, value in embedded.environment(account=live.account.number).items():
        monkeypatch.setenv(name, value)
    several = Folder(folder.root, live)
    models, environments = several.root / "models", several.root / "environments"
    (models / "second").mkdir(parents=True)
    ran = several.init("--from-endpoint", "ranker", "--name", "dev")
    written = [each.name for each in (*models.iterdir(), *environments.glob("*"))]
    assert (ran.return_value, written) == (1, ["second"])
    assert "models/second: exists already" in ran.stderr

    (models / "second").rmdir()
    (several.root / "request.json").write_text('{"inputs": [1]}')
    arguments = ("--from-endpoint", "ranker", "--name", "dev", "--request", "request.json")
    ran = several.init(*arguments)
    # Captured samples don't name their model.
    assert ("servable plan dev" in ran.output, "servable replay" in ran.output) == (True, False)
    for name in ("first", "second"):
        assert (models / name / "1" / "saved_model.pb").is_file()
    tables = tomllib.loads((environments / "dev.toml").read_text())
    assert tables["models"]["first"]["golden"]["request"] == "golden/dev/request.json"


def test_what_cannot_be_adopted_is_refused(folder: Folder) -> None:
    ran = folder.init("--from-endpoint", "rankr")
    assert (ran.return_value, "ranker" in ran.stderr) == (1, True)
    ran = folder.run(init, "--from-endpoint", "ranker", "--account", "111111111111",
                     "--region", "us-east-1")  # fmt: skip
    assert (ran.return_value, "these credentials belong to account" in ran.stderr) == (1, True)


def test_options_that_exclude_each_other(folder: Folder) -> None:
    (folder.root / "request.json").write_text("{}")
    for arguments in (
        ("--endpoint-name", "ranker-2"),
        ("--from-endpoint", "ranker", "--from-model", "ranker"),
        ("--from-endpoint", "ranker", "--from", "prod"),
        ("--from-endpoint", "ranker", "--copy"),
        ("--from-config", "config", "--request", "request.json"),
    ):
        assert isinstance(folder.init(*arguments).exception, click.UsageError), arguments


def test_a_configuration_has_a_file_too_and_a_model_without_an_instance_type_none(
    folder: Folder,
) -> None:
    folder.init("--from-config", "config", "--name", "dev")
    file = folder.root / "environments" / "dev.toml"
    assert 'instance_type = "ml.c5.xlarge"' in file.read_text()
    ran = folder.init("--from-model", folder.live.variant["ModelName"], "--name", "other")
    text = (folder.root / "environments" / "other.toml").read_text()
    assert (ran.return_value, "instance_type" in text) == (1, False)


def test_plan_says_what_changes_in_effect_and_exits_1(folder: Folder) -> None:
    adopted(folder, "--endpoint-name", "ranker-2")
    ran = folder.run(plan, "dev", "--adopt", "ranker")
    changed = "PrimaryContainer.Environment.DB_PASSWORD: (not shown) (gone)"
    assert (ran.return_value, changed in ran.output) == (1, True)
