"""`servable local`: what it prints and how it exits."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servable.local.command import local
from servable_local.aws import down
from servable_local.aws.state_file import StateFile


def _run(folder: Path, *arguments: str) -> Result:
    """The user's own local AWS is not touched."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("servable.local.command.state_folder", lambda: folder)
        return CliRunner().invoke(local, list(arguments))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a local AWS that is up, with a minute of 2 s."""
    folder = tmp_path_factory.mktemp("up")
    assert _run(folder, "up", "--minute", "2").exit_code == 0
    yield folder
    down(folder=folder)


def test_up_prints_the_line_that_points_clients_to_it(folder: Path) -> None:
    state = StateFile(folder).read()
    assert state is not None
    assert f"export AWS_ENDPOINT_URL={state.url}" in _run(folder, "up").stdout


@pytest.mark.parametrize(
    "name", ["AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_SECURITY_TOKEN"]
)
def test_up_unsets_what_would_lead_clients_elsewhere(
    folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "of another cloud")
    assert f"unset {name}" in _run(folder, "up").stdout.splitlines()


def test_up_in_json_is_an_environment(folder: Path) -> None:
    assert "AWS_ENDPOINT_URL" in json.loads(_run(folder, "up", "--json").stdout)["environment"]


def test_up_says_how_long_a_minute_lasts(folder: Path) -> None:
    assert "one minute of its alarms and deployments lasts 2 s" in _run(folder, "up").stdout


def test_up_with_another_minute_than_the_running_ones_exits_1(folder: Path) -> None:
    assert _run(folder, "up", "--minute", "3").exit_code == 1


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
    assert "is not yours to make readable by you only" in _run(tmp_path, "up").stderr


def test_a_port_that_is_none_exits_2(tmp_path: Path) -> None:
    assert _run(tmp_path, "up", "--port", "70000").exit_code == 2


def test_status_of_one_that_is_down_exits_1(tmp_path: Path) -> None:
    assert _run(tmp_path, "status").exit_code == 1


def test_down_says_that_it_ended_one(tmp_path: Path) -> None:
    _run(tmp_path, "up")
    assert _run(tmp_path, "down").stdout == "local AWS: stopped\n"


def test_down_says_that_the_terminal_still_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up = json.loads(_run(tmp_path, "up", "--json").stdout)
    monkeypatch.setenv("AWS_ENDPOINT_URL", up["environment"]["AWS_ENDPOINT_URL"])
    assert "this terminal's AWS variables still name it" in _run(tmp_path, "down").stdout


def test_down_again_exits_0(tmp_path: Path) -> None:
    assert _run(tmp_path, "down").exit_code == 0
