"""`servable local` and `servable-local`: what `up`, `status` and `down` print, and how they exit."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from servable.local.command import local
from servable.main import main
from servable_local.aws import command, down
from servable_local.aws.lifecycle import LocalAwsStartError, StateFile
from servable_local.aws.local_aws import LocalAws
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
    monkeypatch.setattr(Path, "chmod", Mock(side_effect=PermissionError))
    assert "belongs to another user and cannot be made private" in _run(tmp_path, "up").stderr


# --- `servable-local`: the program of the local AWS alone
def test_a_command_to_type_begins_as_this_one_was_started(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """uv sets UV for what it starts, and `uv run` VIRTUAL_ENV: https://docs.astral.sh/uv/reference/environment"""
    monkeypatch.chdir(tmp_path)  # where no local AWS runs
    assert command.main(["down"]) == 0
    assert capsys.readouterr().out == f"local AWS: not running for {tmp_path}\n"
    for uv, environment, program in [
        ("", "", "servable-local"),
        ("/bin/uv", "", "uvx servable-local"),
        ("/bin/uv", "/another", "uvx servable-local"),
        ("/bin/uv", sys.prefix, "servable-local"),
    ]:
        for name, value in (("UV", uv), ("VIRTUAL_ENV", environment)):
            monkeypatch.setenv(name, value)
            if not value:
                monkeypatch.delenv(name)
        assert command.main(["status"]) == 1
        said = f"local AWS: not running; `{program} up` starts it\n"
        assert capsys.readouterr().out == said


def test_a_value_outside_of_its_range_exits_2_and_says_the_range(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, said in [
        (["--port", "70000"], "'--port': 70000 is not in the range 0<=x<=65535."),
        (["--minute", "0.01"], "'--minute': 0.01 is not in the range 0.1<=x<=60.0."),
        (["--containers", "65"], "'--containers': 65 is not in the range 0<=x<=64."),
    ]:
        assert (command.main(["up", *words]), said in capsys.readouterr().err) == (2, True)


def test_it_imports_nothing_of_servable() -> None:
    code = "import sys, servable_local.aws.command; print('servable' in sys.modules)"
    words = [sys.executable, "-c", code]
    assert subprocess.check_output(words, text=True, cwd=ROOT) == "False\n"


# --- what both print
@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalAws:
    """The local AWS that `up` starts and `status` finds."""
    aws = LocalAws("http://127.0.0.1:81", 7, "today", tmp_path, "sec ret", True, 2.0)
    monkeypatch.setattr(command, "up", lambda **given: aws)
    monkeypatch.setattr(command, "status", lambda **given: aws)
    monkeypatch.setattr(command, "down", lambda **given: True)
    monkeypatch.setattr(command, "bootstrap", lambda *_, **given: True)
    return aws


def test_up_says_where_it_is_and_what_containers_need(
    aws: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = command.start_local_aws("tool", minute=2.0, port=81).splitlines()
    assert lines[:3] == [
        "# local AWS at http://127.0.0.1:81, process 7, already up",
        "# account 123456789012, Region us-east-1: bootstrapped, ready for `cdk deploy`",
        "# one minute of its alarms and deployments lasts 2 s",
    ]
    for most, lines in ((0, 1), (1, 0)):
        monkeypatch.setattr(command, "up", Mock(return_value=replace(aws, most_containers=most)))
        printed = command.start_local_aws("tool").splitlines()
        assert len([line for line in printed if "'servable-local[run]'" in line]) == lines


@pytest.mark.parametrize(
    ("minute", "port", "problem"),
    [
        (3.0, 0, "a minute of 2 s; run `tool down` first to use 3 s"),
        (60.0, 82, "run `tool down` first to use port 82"),
        (float("nan"), 0, "allowed: 0.1 to 60"),
    ],
)
def test_up_refuses_what_the_running_one_is_not(
    aws: LocalAws, minute: float, port: int, problem: str
) -> None:
    with pytest.raises(LocalAwsStartError, match=problem):
        command.start_local_aws("tool", minute=minute, port=port)


def test_as_json_each_command_describes_what_it_found(
    aws: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = {
        "url": aws.url, "port": 81, "pid": 7, "started": "today", "seconds_per_minute": 2.0,
        "most_containers": 1, "environment": aws.environment(),
    }  # fmt: skip
    added = {"already_up": True, "bootstrapped": True}
    assert json.loads(command.start_local_aws("tool", as_json=True)) == described | added
    text, runs = command.format_status("tool", as_json=True)
    assert (json.loads(text), runs) == (described | {"up": True}, True)
    assert json.loads(command.stop_local_aws(as_json=True)) == {"ended": True}
    monkeypatch.setattr(command, "status", lambda **given: None)
    text, runs = command.format_status("tool", as_json=True)
    assert (json.loads(text), runs) == ({"up": False}, False)


def test_lines_for_the_shell_unset_what_leads_elsewhere_and_quote_values(
    aws: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_PAGER", "AWS_REGION"):
        monkeypatch.setenv(name, "x")
    text, runs = command.format_status("tool")
    lines = text.splitlines()
    assert (lines[0], runs) == ("# local AWS at http://127.0.0.1:81, process 7, since today", True)
    unset = [line for line in lines if line.startswith("unset ")]
    assert unset[-2:] == ["unset AWS_ENDPOINT_URL_S3", "unset AWS_PROFILE"]
    assert not {"unset AWS_PAGER", "unset AWS_REGION"} & {*lines}
    assert "export AWS_SECRET_ACCESS_KEY='sec ret'" in lines


def test_down_says_whether_the_terminal_still_names_it(
    aws: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("https://127.0.0.1:81", ""):
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        assert command.stop_local_aws() == "local AWS: stopped"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:81")
    assert "this terminal's AWS variables still point to it" in command.stop_local_aws()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["up"], 0),
        (["status"], 0),
        (["down"], 0),
        (["up", "--port", "82"], 1),
        *[(["up", "--port", outside], 2) for outside in ("65536", "-1", "1.5", "nan")],
    ],
)
def test_exit_codes_of_the_program(
    aws: LocalAws, words: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert command.main(words) == code


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (LocalAwsStartError("no room"), 1, "servable-local up: no room\n"),
        (OSError("no disk"), 1, "servable-local up: no disk\n"),
        (ModuleNotFoundError("no moto"), 2, "servable-local up: no moto\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_a_failure_has_its_exit_code_and_its_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: BaseException, code: int, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(command, "start_local_aws", Mock(side_effect=error))
    assert command.main(["up"]) == code
    assert capsys.readouterr() == ("false\n", said)


def test_an_option_takes_both_ends_of_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Mock(return_value="")
    monkeypatch.setattr(command, "start_local_aws", start)
    for port, minute, containers in (("65535", "0.1", "64"), ("0", "60", "1")):
        words = ["up", "--port", port, "--minute", minute, "--containers", containers]
        assert command.main(words) == 0
    names = ("port", "minute", "containers", "as_json")
    given = [tuple(call.kwargs[name] for name in names) for call in start.call_args_list]
    assert given == [(65535, 0.1, 64, False), (0, 60.0, 1, False)]
