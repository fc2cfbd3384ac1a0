"""`servable local`: what it prints and how it exits."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servable.local.command import local
from servable.main import main
from servable_local.aws import down
from servable_local.aws.lifecycle import StateFile
from servable_local.aws.loopback import Access
from tests.checkouts import ROOT


def _run(folder: Path, *arguments: str) -> Result:
    """The user's own local AWS is not touched."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("servable.local.command.find_state_folder", lambda: folder)
        return CliRunner().invoke(local, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a local AWS that is up, with a minute of 2 s."""
    folder = tmp_path_factory.mktemp("up")
    (folder / "node_modules").symlink_to(ROOT / "node_modules")  # the CDK CLI
    assert _run(folder, "up", "--minute", "2").exit_code == 0
    yield folder
    down(folder=folder)


def test_up_prints_the_line_that_points_clients_to_it(folder: Path) -> None:
    state = StateFile(folder).read()
    assert state is not None
    assert f"export AWS_ENDPOINT_URL={state.url}" in _run(folder, "up").stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose file prod is invalid but for its account and Region, and the working folder."""
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "base.toml").write_text('region = "eu-west-1"\n[no_such_table]\n')
    (environments / "prod.toml").write_text('extends = "base"\naccount = "111111111111"\nx = 1\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_up_env_prints_credentials_for_the_files_account_and_region(
    folder: Path, project: Path
) -> None:
    before = StateFile(folder).read()
    assert before is not None
    printed = _run(folder, "up", "prod").stdout.splitlines()
    assert "export AWS_ACCESS_KEY_ID=111111111111" in printed
    assert "export AWS_REGION=eu-west-1" in printed
    assert printed[0] == f"# local AWS at {before.url}, process {before.pid}, already up"
    assert printed[1].startswith("# account 111111111111, Region eu-west-1: bootstrapped")
    place = {"account": "111111111111", "region": "eu-west-1"}
    ssm = Access(before.url, before.secret_access_key).client("ssm", **place)
    version = ssm.get_parameter(Name="/cdk-bootstrap/hnb659fds/version")["Parameter"]["Value"]
    assert int(version) >= 33  # the stack of the real CLI, whose `cdk bootstrap` test_cdk.py runs
    as_json = json.loads(_run(folder, "up", "prod", "--json").stdout)
    assert (as_json["bootstrapped"], as_json["environment"]["AWS_REGION"]) == (True, "eu-west-1")


def test_up_env_needs_a_file_with_an_account_and_a_region(folder: Path, project: Path) -> None:
    file = project / "environments" / "prod.toml"
    assert "allowed: prod" in _run(folder, "up", "staging").stderr
    both = _run(folder, "up", "prod", "--account", "222222222222")
    assert (both.exit_code, "remove one" in both.stderr) == (2, True)
    file.write_text('account = 111111111111\nregion = "eu-west-1"\n')
    remedy = 'environments/prod.toml: account isn\'t a string; write account = "123456789012"'
    assert remedy in _run(folder, "up", "prod").stderr
    file.write_text('account = "1111"\nregion = "eu-west-1"\n')
    assert "'1111' isn't a valid account; use 12 digits" in _run(folder, "up", "prod").stderr
    file.write_text("account = ")
    assert "not TOML" in _run(folder, "up", "prod").stderr


def test_up_says_where_the_cdk_cli_is_missing_for_the_bootstrap(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("servable_local.aws.local_aws._TEMPLATE", Path("nowhere"))
    options = ("up", "--account", "333333333333", "--region", "us-west-2")
    assert _run(folder, *options).stdout.splitlines()[1] == (
        "# account 333333333333, Region us-west-2: not bootstrapped, because the CDK CLI isn't "
        "installed here; run `cdk bootstrap aws://333333333333/us-west-2` before the first `cdk deploy`"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["local", "up", "nowhere"],
        ["local", "up", "--port", "70000"],
        ["local", "pu"],
        ["--project", "/nowhere", "local", "up"],
        ["local", "up", "--region", "mars"],
    ],
)
def test_a_failure_prints_false_for_the_shell_that_evaluates_it(
    words: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert (ended.value.code in (1, 2), capsys.readouterr().out) == (True, "false\n")


@pytest.mark.parametrize(
    "words", [["local", "status"], ["local", "up", "--help"], ["check"], ["check", "local"]]
)
def test_no_other_command_prints_false(
    words: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(words)
    assert "false\n" not in capsys.readouterr().out


def test_status_of_one_that_is_up_exits_0(folder: Path) -> None:
    assert _run(folder, "status").exit_code == 0


def test_up_at_a_port_that_is_taken_exits_1(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert _run(tmp_path, "up", "--port", str(taken.getsockname()[1])).exit_code == 1


def test_a_folder_of_another_user_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refuse)
    assert "belongs to another user and cannot be made private" in _run(tmp_path, "up").stderr


def test_status_of_one_that_is_down_exits_1(tmp_path: Path) -> None:
    assert _run(tmp_path, "status").exit_code == 1


def test_down_says_that_it_ended_one(tmp_path: Path) -> None:
    _run(tmp_path, "up")
    assert _run(tmp_path, "down").stdout == "local AWS: stopped\n"


def test_down_again_exits_0(tmp_path: Path) -> None:
    assert _run(tmp_path, "down").exit_code == 0
