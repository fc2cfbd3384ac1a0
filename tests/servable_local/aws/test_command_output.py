"""`up`, `status` and `down` of the local AWS: what they print, their exit codes and their options."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws import command
from servable_local.aws.lifecycle import LocalAwsStartError
from servable_local.aws.local_aws import LocalAws


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
        monkeypatch.setattr(
            command, "up", lambda most=most, **_: replace(aws, most_containers=most)
        )
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
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise error

    monkeypatch.setattr(command, "start_local_aws", fail)
    assert command.main(["up"]) == code
    assert capsys.readouterr() == ("false\n", said)


def test_an_option_takes_both_ends_of_its_range(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, float, int, bool]] = []

    def start(
        _: str, *, port: int, minute: float, containers: int, as_json: bool, **others: Any
    ) -> str:
        given.append((port, minute, containers, as_json))
        return ""

    monkeypatch.setattr(command, "start_local_aws", start)
    for port, minute, containers in (("65535", "0.1", "64"), ("0", "60", "1")):
        words = ["up", "--port", port, "--minute", minute, "--containers", containers]
        assert command.main(words) == 0
    assert given == [(65535, 0.1, 64, False), (0, 60.0, 1, False)]
