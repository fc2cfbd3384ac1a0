"""`servable init --from ENV --name NEW`: an environment beside another, for a while."""

import json
from datetime import date, timedelta
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check, select_errors
from servable.init.command import init
from tests.conftest import VALID, valid

NOTIFIED = VALID.replace('"ranker"', '"ranker-dev"', 1) + '[alarms]\nnotify = ["a@example.com"]\n'


@pytest.fixture
def dev(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "dev.toml").write_text(NOTIFIED)
    monkeypatch.chdir(project)
    return project


def run(*arguments: str) -> Result:
    return CliRunner().invoke(init, arguments, standalone_mode=False, color=False)


def loaded(project: Path, name: str) -> ValidFile:
    files = load(project, project / "environments")
    return valid(next(file for file in files if file.name == name))


def preview_of(dev: Path, text: str) -> Environment:
    """The environment of a preview `pr` of this file."""
    (dev / "environments" / "dev.toml").write_text(text)
    assert run("--from", "dev", "--name", "pr").return_value == 0
    environment = loaded(dev, "pr").environment
    (dev / "environments" / "pr.toml").unlink()
    return environment


def test_a_preview_is_the_environment_with_an_endpoint_of_its_own_and_never_written_over(
    dev: Path,
) -> None:
    arguments = ("--from", "dev", "--name", "pr42")
    said = json.loads(run(*arguments, "--expires-in-days", "3", "--json").stdout)
    assert (said["endpoint"], said["findings"]) == ("ranker-pr42", [])
    made = loaded(dev, "pr42")
    assert made.environment.endpoint.name == "ranker-pr42"
    expires = str(date.today() + timedelta(days=3))
    assert made.environment.tags == {"preview-of": "dev", "expires": expires}
    assert (made.environment.alarms.notify, select_errors(check(made))) == ([], [])
    assert made.environment.variants == loaded(dev, "dev").environment.variants
    before = (dev / "environments" / "pr42.toml").read_text()
    assert run(*arguments, "--expires-in-days", "9").return_value == 1
    assert (dev / "environments" / "pr42.toml").read_text() == before
    long = preview_of(dev, NOTIFIED.replace("ranker-dev", "r" * 63))
    assert long.endpoint.name == f"{'r' * 60}-pr"
    # A preview of what is protected can be destroyed.
    protected = 'name = "ranker-dev"\nprotect = true'
    made_ = preview_of(dev, NOTIFIED.replace('name = "ranker-dev"', protected))
    assert made_.endpoint.protect is False
    real = NOTIFIED.replace("production = false", "production = true")
    assert preview_of(dev, real).production is False


def test_a_name_that_cannot_be_an_environments_and_a_broken_preview_are_refused(dev: Path) -> None:
    for name in ["../up", "base", "x-base", "4", "under_score"]:
        assert run("--from", "dev", "--name", name).return_value == 1
    assert "--from requires a name for the preview" in str(run("--from", "dev").exception)
    for words in ("--name x", "model --from dev --name x", "model --expires-in-days 3"):
        assert isinstance(run(*words.split()).exception, click.UsageError)
    (dev / "environments" / "dev.toml").write_text(NOTIFIED.replace("ml.c5.xlarge", "ml.none"))
    ran = run("--from", "dev", "--name", "pr42")
    assert (ran.return_value, "ml.none" in ran.stderr) == (1, True)
    assert not (dev / "environments" / "pr42.toml").exists()


def test_two_environments_with_one_endpoint_are_refused_of_a_copy_only_the_copy(dev: Path) -> None:
    (dev / "environments" / "other.toml").write_text(NOTIFIED.replace("ranker-dev", "Ranker-Dev"))
    for name, own, other in (("dev", "ranker-dev", "other"), ("other", "Ranker-Dev", "dev")):
        (error,) = select_errors(check(loaded(dev, name)))
        place = f"environments/{other}.toml, in the same account and region"
        said = (f"environments/{name}.toml", f"{own} is also the endpoint of {place}")
        assert (error.file, error.problem) == said

    (dev / "environments" / "other.toml").unlink()
    (dev / "environments" / "copy.toml").write_text('extends = "dev"\n')
    found = {name: len(select_errors(check(loaded(dev, name)))) for name in ("dev", "copy")}
    assert found == {"dev": 0, "copy": 1}
    for other in ['account = "222222222222"', 'region = "us-east-1"']:
        (dev / "environments" / "copy.toml").write_text(f'extends = "dev"\n{other}\n')
        assert select_errors(check(loaded(dev, "copy"))) == []
