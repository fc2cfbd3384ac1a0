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


def test_init_writes_the_file_of_a_live_endpoint(folder: Folder) -> None:
    assert 'name = "ranker"' in adopted(folder).read_text()


def test_init_writes_no_secret(folder: Folder) -> None:
    assert "hunter2" not in adopted(folder).read_text()


def test_the_answer_to_a_request_becomes_a_golden_one(folder: Folder) -> None:
    (folder.root / "request.json").write_text('{"inputs": [1]}')
    adopted(folder, "--request", "request.json")
    answer = json.loads((folder.root / "golden" / "dev" / "answer.json").read_text())
    assert answer["body"] == '{"inputs": [1]}'  # what the stand-in was sent


@pytest.fixture
def several(
    folder: Folder, embedded: LocalAws, launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    """A folder beside a live multi-model endpoint of another account, with data capture."""
    live = LiveEndpoint(Account(embedded, launcher))
    for name in ("multi-model", "capture"):
        LIVE[name](live)
    live.make()
    for name, value in embedded.environment(account=live.account.number).items():
        monkeypatch.setenv(name, value)
    return Folder(folder.root, live)


def test_the_models_of_a_multi_model_endpoint_are_fetched(several: Folder) -> None:
    adopted(several)
    models = several.root / "models"
    assert [(models / name / "1" / "saved_model.pb").is_file() for name in ("first", "second")] == [
        True
    ] * 2


def test_samples_that_do_not_name_their_model_are_not_replayed(several: Folder) -> None:
    ran = several.init("--from-endpoint", "ranker", "--name", "dev")
    assert ("servable plan dev" in ran.output, "servable replay" in ran.output) == (True, False)


def test_a_multi_model_endpoint_is_asked_for_its_first_model(several: Folder) -> None:
    (several.root / "request.json").write_text('{"inputs": [1]}')
    several.init("--from-endpoint", "ranker", "--name", "dev", "--request", "request.json")
    tables = tomllib.loads((several.root / "environments" / "dev.toml").read_text())
    assert tables["models"]["first"]["golden"]["request"] == "golden/dev/request.json"


def test_a_folder_that_is_there_already_is_not_written_into(several: Folder) -> None:
    (several.root / "models" / "second").mkdir(parents=True)
    ran = several.init("--from-endpoint", "ranker", "--name", "dev")
    written = [*(several.root / "models").iterdir(), *several.root.glob("environments/*")]
    assert (ran.return_value, [each.name for each in written]) == (1, ["second"])
    assert "models/second: exists already" in ran.stderr


def test_json_has_the_list(folder: Folder) -> None:
    ran = folder.init("--from-endpoint", "ranker", "--name", "dev", "--json")
    listed = json.loads(ran.stdout)["not_carried"]
    lost = [row["where"].rpartition(" ")[2] for row in listed if row["effect"] == "lost"]
    assert lost == ["API_TOKEN", "DB_PASSWORD"]


def test_what_cannot_be_adopted_is_refused(folder: Folder) -> None:
    ran = folder.init("--from-endpoint", "rankr")
    assert (ran.return_value, "ranker" in ran.stderr) == (1, True)
    ran = folder.run(init, "--from-endpoint", "ranker", "--account", "111111111111",
                     "--region", "us-east-1")  # fmt: skip
    assert (ran.return_value, "these credentials belong to account" in ran.stderr) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--endpoint-name", "ranker-2"),
        ("--from-endpoint", "ranker", "--from-model", "ranker"),
        ("--from-endpoint", "ranker", "--from", "prod"),
        ("--from-config", "config", "--request", "request.json"),
    ],
)
def test_options_that_exclude_each_other(folder: Folder, arguments: tuple[str, ...]) -> None:
    (folder.root / "request.json").write_text("{}")
    assert isinstance(folder.init(*arguments).exception, click.UsageError)


def test_a_second_file_of_that_name_is_not_written(folder: Folder) -> None:
    file = adopted(folder)
    file.write_text("mine")
    folder.init("--from-endpoint", "ranker", "--name", "dev")
    assert file.read_text() == "mine"


def test_a_configuration_has_a_file_too(folder: Folder) -> None:
    folder.init("--from-config", "config", "--name", "dev")
    text = (folder.root / "environments" / "dev.toml").read_text()
    assert 'instance_type = "ml.c5.xlarge"' in text


def test_an_instance_type_is_not_guessed(folder: Folder) -> None:
    ran = folder.init("--from-model", folder.live.variant["ModelName"], "--name", "dev")
    text = (folder.root / "environments" / "dev.toml").read_text()
    assert (ran.return_value, "instance_type" in text) == (1, False)


def test_plan_says_what_changes_in_effect_and_exits_1(folder: Folder) -> None:
    adopted(folder, "--endpoint-name", "ranker-2")
    ran = folder.run(plan, "dev", "--adopt", "ranker")
    changed = "PrimaryContainer.Environment.DB_PASSWORD: (not shown) (gone)"
    assert (ran.return_value, changed in ran.output) == (1, True)
