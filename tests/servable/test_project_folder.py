"""Which project a command is about: the one that somebody stands in, or --project."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from servable.main import servable
from servable.project.environments import Project
from servable.project.folder import find_state_folder
from tests.conftest import VALID


def run(*arguments: str) -> Result:
    return CliRunner().invoke(servable, arguments)


@pytest.fixture
def prod(project: Path) -> Path:
    """A project whose file does not load: what is said names the file from the project."""
    text = VALID.replace("instance_type", "instance_tpye")
    (project / "environments" / "prod.toml").write_text(text)
    return project


FOUND = "environments/prod.toml:11: variants.primary.instance_tpye: unknown key"


def test_a_project_is_found_upwards_and_keeps_what_runs_in_it(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for inside in [".", "code", "environments", "model/1"]:
        monkeypatch.chdir(prod / inside)
        assert run("check").stderr.startswith(FOUND)
    monkeypatch.chdir(prod / "code")
    assert find_state_folder() == prod / ".servable"


def test_a_project_can_be_named_from_anywhere_and_goes_before_the_one_around(
    prod: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for command in [["check"], ["cost", "prod"], ["serve", "prod"], ["verify", "prod"]]:
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
        assert FOUND.partition(": ")[2] in run("--project", str(prod), *command).stderr

    other = tmp_path_factory.mktemp("other")
    (other / "environments").mkdir()
    (other / "environments" / "dev.toml").write_text("")
    monkeypatch.chdir(other)
    assert FOUND in run("--project", str(prod), "check", "prod").stderr


def test_outside_of_a_project_it_is_said_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("--project", str(tmp_path / "none"), "check").exit_code == 2

    monkeypatch.chdir(tmp_path)
    ran = run("check")
    assert (ran.exit_code, "`servable new DIRECTORY`" in ran.stderr) == (2, True)

    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "science.yml").write_text("name: science\n")
    inside = tmp_path / "mine"
    inside.mkdir()
    monkeypatch.chdir(inside)
    assert find_state_folder() == inside / ".servable"


def test_environments_of_a_project_may_lie_elsewhere(
    prod: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("shared") / "environments"
    (prod / "environments").rename(elsewhere)
    (prod / "environments").symlink_to(elsewhere)
    monkeypatch.chdir(prod / "code")
    assert run("check").stderr.startswith(FOUND)
    (prod / "more").mkdir()
    (elsewhere / "prod.toml").rename(prod / "more" / "prod.toml")
    (elsewhere / "dev.toml").write_text("")
    ran = run("check", "prod", "--environments", "more")
    assert ran.stderr.startswith(FOUND.replace("environments", "more"))


def test_a_project_without_an_environment_is_told_what_writes_the_first(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert "`servable init SAVED_MODEL` creates one" in run("check").stderr
    ran = run("cost", "prod")
    assert (
        "there is no environment 'prod', and the folder has no others; `servable init" in ran.stderr
    )


def test_a_key_and_an_environment_are_named_alike_with_and_without_a_set_key(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (prod / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(prod)
    for option in ["endpoint.name=x", "prod.endpoint.name=x"]:
        (loaded,) = Project("environments", (option,)).load_all("prod")
        assert loaded.overrides == {"endpoint.name": "x"}
    with pytest.raises(click.UsageError, match="write --set prod.region=x to set the key of prod"):
        Project("environments", ("region=x",)).load_all()
    problem = "there is no environment 'prdo'; allowed: prod; did you mean prod?"
    for command in ["check", "plan", "package", "cost"]:
        for options in [[], ["--set", "region=us-east-1"]]:
            said = run(command, "prdo", *options).stderr
            assert said.rstrip().endswith(f"Error: {problem}")
