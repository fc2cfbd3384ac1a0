"""`servable new DIRECTORY`: what a project of somebody's own consists of, written whole or not at all."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from infra.parameters.environment import Environment
from infra.parameters.keys import find_type
from infra.parameters.loading import load
from model_packaging.beside import write_atomically
from servable import __version__
from servable.main import COMMANDS, servable
from servable.new import project_files
from servable.new.command import new
from servable.new.project_files import STAMP, derive_service_name, write_all
from tests.checkouts import ROOT
from tests.conftest import VALID, valid
from tests.pipelines.workflows import FILES, read, steps


def run(*arguments: str) -> Result:
    return CliRunner().invoke(new, arguments, standalone_mode=False)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new project, my-service, that no test changes."""
    folder = tmp_path_factory.mktemp("new") / "my-service"
    assert run(str(folder)).return_value == 0
    return folder


def files(folder: Path) -> set[str]:
    return {one.relative_to(folder).as_posix() for one in folder.rglob("*") if one.is_file()}


def test_a_project_has_what_deploying_takes_names_the_service_and_no_registry(
    written: Path,
) -> None:
    assert files(written) == {
        ".github/dependabot.yml",
        ".github/workflows/approved-model.yml",
        ".github/workflows/deploy-environment.yml",
        ".github/workflows/deploy.yml",
        ".github/workflows/pull-request.yml",
        ".gitignore",
        ".pre-commit-config.yaml",
        ".vscode/extensions.json",
        "AGENTS.md",
        "README.md",
        "cdk.json",
        "docs/runbook.md",
        "environments/base.toml",
        "environments/schema.json",
        "environments/secure-base.toml",
        "package-lock.json",
        "package.json",
        "requirements.txt",
    }

    for name in files(written) - {"environments/schema.json"}:
        assert not re.search(r"@(service|version)@", (written / name).read_text()), name
    assert f"=={__version__}" in (written / "requirements.txt").read_text()
    assert json.loads((written / "package-lock.json").read_text())["name"] == "my-service"
    told = json.loads((written / ".vscode" / "extensions.json").read_text())
    assert told == {"recommendations": ["tamasfe.even-better-toml"]}
    context = json.loads((written / "cdk.json").read_text())["context"]
    assert context[STAMP] == __version__

    text = "".join((written / name).read_text() for name in files(written))
    assert not re.search(r"registry\.npmjs|pypi\.org|resolved|index-url", text)
    assert "servable-endpoints[" in text
    assert "--find-links" not in text
    assert "pip" not in (written / ".github" / "dependabot.yml").read_text()

    workflows = (written / ".github" / "workflows").glob("*.yml")
    installing = {file.name: read(file) for file in workflows if "pip install" in file.read_text()}
    links = {table["env"]["PIP_FIND_LINKS"] for table in installing.values()}
    assert links == {"${{ vars.PIP_FIND_LINKS }}"}


@pytest.mark.long
def test_the_hooks_of_a_commit_check_and_renew_the_schema(tmp_path: Path) -> None:
    assert run(str(tmp_path / "new")).return_value == 0
    written, schema = tmp_path / "new", tmp_path / "new" / "environments" / "schema.json"
    hooks = yaml.safe_load((written / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = {hook["id"]: shlex.split(hook["entry"]) for hook in hooks}
    (written / ".venv" / "bin").mkdir(parents=True)
    (written / ".venv" / "bin" / "servable").symlink_to(Path(sys.executable).with_name("servable"))
    (written / "environments" / "prod.toml").write_text("region = 7\n")
    before = schema.read_text()
    schema.write_text("{}")
    codes = {
        name: subprocess.run(entry, cwd=written, capture_output=True).returncode
        for name, entry in entries.items()
    }
    assert (codes, schema.read_text()) == ({"check": 1, "schema": 0}, before)
    assert all(re.compile(hook["files"]).search("environments/schema.json") for hook in hooks)


def test_the_base_explains_keys_that_are_one_and_the_app_is_this_repository_s(
    written: Path,
) -> None:
    ours, theirs = (json.loads((one / "cdk.json").read_text()) for one in (ROOT, written))
    assert theirs["app"].endswith(" servable-app")
    assert theirs["context"] == ours["context"]

    ours = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    theirs = json.loads((written / "package-lock.json").read_text())["packages"]
    assert theirs["node_modules/aws-cdk"] == ours["node_modules/aws-cdk"]
    wanted = {"aws-cdk": ours["node_modules/aws-cdk"]["version"]}
    assert json.loads((written / "package.json").read_text())["devDependencies"] == wanted

    table: tuple[str, ...] = ()
    for line in (written / "environments" / "base.toml").read_text().splitlines():
        if found := re.match(r"(?:# )?\[(\w+)\]$", line):
            table = (found[1],)
        elif found := re.match(r"(?:# )?(\w+) *= ", line):
            assert table == ("tags",) or find_type((*table, found[1])) is not None, line
    assert "schema.json" in (written / "environments" / "base.toml").read_text()


def test_an_update_of_a_new_project_ends_when_the_new_fleet_refuses_its_requests(
    written: Path, tmp_path: Path
) -> None:
    """A 4xx is seen by none of the alarms that have a default."""
    folder = tmp_path / "environments"
    shutil.copytree(written / "environments", folder)
    values = VALID.replace('region = "eu-west-1"', 'region = "eu-west-1"\nextends = "base"')
    (folder / "prod.toml").write_text(values + '[rollout]\nstrategy = "canary"\n')
    (loaded,) = load(tmp_path, folder)
    found = valid(loaded).environment
    assert found.rollout is not None
    alarms = found.rollout.list_rollback_alarms(found.alarms, variants=["primary"], kind=found.kind)
    assert ("primary", "4xx") in alarms


def test_a_folder_of_any_name_or_with_other_files_becomes_a_project(tmp_path: Path) -> None:
    ran = run(str(tmp_path / "x" / ".." / "y"))
    assert (ran.return_value, [folder.name for folder in tmp_path.iterdir()]) == (0, ["y"])
    ran = run(str(tmp_path / "my service$(x)"))
    after = ran.stdout.partition("next: ")[2].partition(", then")[0]
    assert shlex.split(after) == ["cd", str(tmp_path / "my service$(x)")]

    (tmp_path / "LICENSE").write_text("mine")
    assert run(str(tmp_path)).return_value == 0
    assert (tmp_path / "LICENSE").read_text() == "mine"


def test_no_file_that_is_there_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("mine")
    (tmp_path / "environments").write_text("a file")
    ran = run(str(tmp_path))
    assert (ran.return_value, files(tmp_path)) == (1, {"README.md", "environments"})
    assert f"{tmp_path}/README.md: exists already" in ran.stderr
    assert f"{tmp_path}/environments: isn't a folder" in ran.stderr
    assert (tmp_path / "README.md").read_text() == "mine"

    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "README.md").symlink_to(linked / "elsewhere")
    assert run(str(linked)).return_value == 1
    assert not (linked / "elsewhere").exists()


@pytest.mark.parametrize("wrong", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_goes_wrong_half_way_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: BaseException
) -> None:
    def fails(file: Path, content: bytes) -> None:
        if file.name == "b.txt":
            raise wrong
        write_atomically(file, content)

    monkeypatch.setattr(project_files, "write_atomically", fails)
    (tmp_path / "mine").write_text("")
    with pytest.raises(type(wrong)):
        write_all(tmp_path, {"new/deep/a.txt": "a", "b.txt": "b"})
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "mine"]


def test_any_folder_has_a_name_for_a_service_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    pattern = Environment.model_fields["service"].metadata[0].pattern
    names = {"My Service_2": "my-service-2", "2nd": "service-2nd", "Ü": "service"}
    for folder, name in (names | {"a" * 80: "a" * 63}).items():
        assert derive_service_name(tmp_path / folder) == name
        assert re.fullmatch(pattern, name)
    refused = run(str(tmp_path), "--name", "Up_1").exception
    assert "--name Up_1: invalid service name" in str(refused)


# The workflows of a project.


def lines_of(files: Iterable[Path]) -> list[str]:
    return [line.strip(" -") for file in files for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def workflows(written: Path) -> list[Path]:
    return sorted((written / ".github" / "workflows").glob("*.yml"))


def test_actions_are_pinned_and_nothing_is_deployed_before_an_environment_is_set_up(
    workflows: list[Path],
) -> None:
    used = [line for line in lines_of(workflows) if "uses:" in line]
    assert len(used) >= 6
    assert set(used) <= {*lines_of(FILES)}
    for file in workflows:
        allowed = yaml.safe_load(file.read_text())["permissions"].items()
        assert set(allowed) <= {("contents", "read"), ("id-token", "write")}
        assert "secrets." not in file.read_text()

    (deploy,) = (read(workflow)["jobs"] for workflow in workflows if workflow.stem == "deploy")
    assert {name: job["if"] for name, job in deploy.items()} == {
        "staging": "vars.STAGING_REGION != ''",
        "production": "vars.PROD_REGION != ''",
    }
    assert deploy["production"]["needs"] == "staging"


def test_every_step_is_shell_and_calls_what_there_is(workflows: list[Path]) -> None:
    for step in (one for file in workflows for one in steps(file)):
        checked = subprocess.run(["bash", "-n"], input=step.script, text=True, check=False)
        assert checked.returncode == 0, step.name
        assert "make " not in step.script
        for name, rest in re.findall(r"(?<!bin/)\bservable (\w+)([^\n|]*)", step.script):
            assert name in COMMANDS
            command = servable.get_command(click.Context(servable), name)
            assert command is not None
            known = {option for param in command.params for option in param.opts}
            assert set(re.findall(r"--[a-z-]+", rest)) <= known
