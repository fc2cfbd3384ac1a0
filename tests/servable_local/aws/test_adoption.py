"""Endpoints that others made, read, written as an environment file, and compared: by commands, and inside."""

import contextlib
import copy
import functools
import io
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check
from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.live_snapshot import LiveSnapshot, read_live_snapshot
from servable.init.adoption.live_template import (
    COMPARED,
    build_live_template,
    explain_harmless_change,
)
from servable.init.command import init
from servable.init.from_live import fetch_models, render_environment
from servable.plan.command import plan
from servable.plan.synthesis import synthesise_endpoint
from servable.plan.template_changes import TemplateChange, list_changes
from tests.servable_local.aws.live_endpoints import LIVE, NAME, LiveEndpoint, page_blocks
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
def live(accounts: Account) -> LiveEndpoint:
    """Scaled, with data capture, a secret among its variables; no test changes it."""
    live = LiveEndpoint(accounts.another())
    for name in ("capture", "own variables and a secret", "tracking"):
        LIVE[name](live)
    live.make()
    return live


@pytest.fixture
def folder(tmp_path: Path, live: LiveEndpoint, monkeypatch: pytest.MonkeyPatch) -> Folder:
    for name, value in live.account.aws.environment(account=live.account.number).items():
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
    folder: Folder, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = LiveEndpoint(account)
    for name in ("multi-model", "capture"):
        LIVE[name](live)
    live.make()
    for name, value in live.account.aws.environment(account=live.account.number).items():
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


@dataclass(frozen=True)
class Adopted:
    """One live endpoint, the file that was written of it, and the template of that file."""

    snapshot: LiveSnapshot
    expressed: Expressed
    loaded: ValidFile
    errors: list[str]
    template: dict[str, Any]

    @property
    def changes(self) -> list[TemplateChange]:
        """What the file's stack would change of what is live."""
        return [
            change
            for change in list_changes(
                build_live_template(self.snapshot, self.template), self.template
            )
            if change.resource in COMPARED
        ]


@pytest.fixture(scope="module")
def find_adopted(
    accounts: Account, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Adopted]:
    """Each endpoint is made once; tests ask several things of it."""

    @functools.cache
    def find(name: str) -> Adopted:
        live = LiveEndpoint(accounts.another())
        LIVE[name](live)
        live.make()
        return adopt(live.account, tmp_path_factory.mktemp("adopted"))

    return find


def adopt(account: Account, root: Path) -> Adopted:
    opened = account.open()
    snapshot = read_live_snapshot(opened, "endpoint", NAME)
    result = fetch_models(convert_live_endpoint(snapshot), opened, root)
    (root / "environments").mkdir()
    (root / "cdk.json").write_text("{}")
    text = render_environment(result, source=f"endpoint {NAME}")
    (root / "environments" / "dev.toml").write_text(text)
    (loaded,) = load(root, root / "environments")
    assert isinstance(loaded, ValidFile), loaded.findings
    found = [str(each) for each in check(loaded) if each.severity is Severity.ERROR]
    with contextlib.redirect_stderr(io.StringIO()):
        template = synthesise_endpoint(loaded)
    return Adopted(snapshot, result, loaded, found, template)


@pytest.mark.parametrize("name", LIVE)
def test_the_written_file_passes_the_checks_and_lists_what_it_changes(
    find_adopted: Callable[[str], Adopted], name: str
) -> None:
    case = find_adopted(name)
    assert case.errors == []
    listed = " ".join(row.where for row in case.expressed.not_carried)
    silent = [
        change
        for change in case.changes
        if explain_harmless_change(change.what, change.before, change.after, case.snapshot) is None
        and not _is_listed(change, listed)
    ]
    assert silent == []


def _is_listed(change: TemplateChange, listed: str) -> bool:
    """Whether the field, or the table that it is in, is a row of the list."""
    if change.resource.startswith("AWS::ApplicationAutoScaling"):
        return "scaling of" in listed
    outer = ("ProductionVariants", "PrimaryContainer", "Environment", "DataCaptureConfig")
    parts = [part.partition("[")[0] for part in change.what.split(".")]
    if change.what.startswith("PrimaryContainer.ModelData"):
        return "s3://" in listed
    return any(part in listed for part in parts if part not in outer)


TAGGED = "tags of the model and the configuration"


@pytest.mark.parametrize(
    ("name", "row"),
    [
        (TAGGED, "endpoint configuration: tag cost"),
        (TAGGED, "model ranker-2026-11-20-10-15-00: tag model-owner"),
        ("a composite alarm", "alarm page"),
        ("capture that is off", "DataCaptureConfig"),
    ],
)
def test_what_no_template_shows_is_listed(
    find_adopted: Callable[[str], Adopted], name: str, row: str
) -> None:
    assert row in [each.where for each in find_adopted(name).expressed.not_carried]


def test_a_secret_is_left_out_and_named(find_adopted: Callable[[str], Adopted]) -> None:
    expressed = find_adopted("own variables and a secret").expressed
    text = render_environment(expressed, source="endpoint ranker")
    assert [secret in text for secret in ("hunter2", "xyzzy")] == [False, False]
    assert [name in text for name in ("DB_PASSWORD", "API_TOKEN")] == [True, True]


def test_the_file_of_an_endpoint_by_the_sdk_is_the_pages(
    find_adopted: Callable[[str], Adopted],
) -> None:
    tables = copy.deepcopy(find_adopted("by SDK v3").expressed.tables)
    number = tables["account"]
    (block,) = page_blocks("toml")
    text = block.replace("123456789012", number).replace("team-models", f"archives-{number}")
    tables.pop("metrics", None)  # by the day of its creation
    for key in ("sha256", "size_bytes", "size_gib"):
        del tables["models"]["model"]["artifact"][key]
    assert tables == tomllib.loads(text)
