"""`servable local`: what it prints and how it exits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.local import local
from local.aws import down, state_file


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's own embedded AWS is not touched."""
    monkeypatch.setattr("local.aws.lifecycle.project_folder", lambda: tmp_path)
    yield tmp_path
    down(folder=tmp_path)


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(local, list(arguments))


def test_up_prints_the_line_that_points_clients_to_it(folder: Path) -> None:
    said = _run("up").stdout
    state = state_file.StateFile(folder).read()
    assert state is not None
    assert f"export AWS_ENDPOINT_URL={state.url}" in said


def test_up_in_json_is_an_environment(folder: Path) -> None:
    assert "AWS_ENDPOINT_URL" in json.loads(_run("up", "--json").stdout)["environment"]


def test_up_at_a_port_that_is_taken_exits_1() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert _run("up", "--port", str(taken.getsockname()[1])).exit_code == 1


def test_a_port_that_is_none_exits_2() -> None:
    assert _run("up", "--port", "70000").exit_code == 2


def test_status_of_one_that_is_down_exits_1() -> None:
    assert _run("status").exit_code == 1


def test_status_of_one_that_is_up_exits_0() -> None:
    _run("up")
    assert _run("status").exit_code == 0


def test_down_says_that_it_ended_one() -> None:
    _run("up")
    assert _run("down").stdout == "embedded AWS: ended\n"


def test_down_again_exits_0() -> None:
    assert _run("down").exit_code == 0


def test_up_says_how_long_a_minute_lasts() -> None:
    assert (
        "one minute of its alarms and deployments lasts 2 s" in _run("up", "--minute", "2").stdout
    )


def test_up_with_another_minute_than_the_running_ones_exits_1() -> None:
    _run("up", "--minute", "2")
    assert _run("up", "--minute", "3").exit_code == 1
