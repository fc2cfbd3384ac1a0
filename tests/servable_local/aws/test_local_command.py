"""`servable local`: what it prints and how it exits."""

import json
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


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """The folder of a local AWS that is up, with a minute of 2 s."""
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")  # the CDK CLI
    assert _run(tmp_path, "up", "--minute", "2").exit_code == 0
    yield tmp_path
    down(folder=tmp_path)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose file prod is invalid but for its account and Region, and the working folder."""
    environments = tmp_path / "environments"
    environments.mkdir()
    (environments / "base.toml").write_text('region = "eu-west-1"\n[no_such_table]\n')
    (environments / "prod.toml").write_text('extends = "base"\naccount = "111111111111"\nx = 1\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long  # it starts a process
def test_up_env_prints_credentials_for_the_files_account_and_region(
    folder: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = StateFile(folder).read()
    assert before is not None
    assert f"export AWS_ENDPOINT_URL={before.url}" in _run(folder, "up").stdout
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

    monkeypatch.setenv("PATH", str(project))
    monkeypatch.setattr("servable_local.aws.local_aws._TEMPLATE", Path("nowhere"))
    options = ("up", "--account", "333333333333", "--region", "us-west-2")
    assert _run(folder, *options).stdout.splitlines()[1] == (
        "# account 333333333333, Region us-west-2: not bootstrapped, because the CDK CLI isn't "
        "installed here; run `cdk bootstrap aws://333333333333/us-west-2` before the first `cdk deploy`"
    )
    assert _run(folder, "status").exit_code == 0
    assert _run(folder, "down").stdout == "local AWS: stopped\n"
    assert _run(folder, "status").exit_code == 1


def test_up_env_needs_a_file_with_an_account_and_a_region(project: Path) -> None:
    folder = project
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


@pytest.mark.parametrize(
    ("words", "says_false"),
    [
        ("local up nowhere", True),
        ("local up --port 70000", True),
        ("local pu", True),
        ("--project /nowhere local up", True),
        ("local up --region mars", True),
        ("local status", False),
        ("local up --help", False),
        ("check local", False),
    ],
)
def test_a_failing_up_prints_false_for_the_shell_that_evaluates_it(
    words: str, says_false: bool, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    assert (capsys.readouterr().out == "false\n") == says_false
    assert ended.value.code in (1, 2) or not says_false


def test_a_folder_of_another_user_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refuse)
    assert "belongs to another user and cannot be made private" in _run(tmp_path, "up").stderr
