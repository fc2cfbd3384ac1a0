"""`servable history ENV`: what is printed."""

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from model_packaging.refusal import PackagingError
from servable.history import command
from servable.history.deployments import Deployment
from tests.conftest import VALID


@pytest.fixture
def printed(project: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    record: dict[str, Any] = {"overrides": {"endpoint.name": "x"}, "revision": "abc"}
    deployment = Deployment(
        number=1, time="2026-11-22 20:00:00+00:00", live=True, fingerprint="f" * 64, record=record
    )
    monkeypatch.setattr(command, "open_account", lambda *given, **options: None)
    monkeypatch.setattr(command, "list_deployments", lambda *given: [deployment])
    return CliRunner().invoke(command.history, ["prod"], standalone_mode=False).stdout.splitlines()


def test_a_deployment_has_a_row_below_the_heads_and_its_overrides_below_it(
    printed: list[str],
) -> None:
    heads, cells = printed[:2]
    columns = [heads.index(head) for head in re.split(r" {2,}", heads)]
    assert [re.split(r" {2,}", cells[column:])[0] for column in columns] == [
        "1", "2026-11-22 20:00:00", "live", "ffffffffffff", "abc", "unknown",
    ]  # fmt: skip
    assert printed[2:] == ["    override: endpoint.name=x"]


def test_history_that_cannot_be_read_ends_with_2(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*given: Any, **options: Any) -> None:
        raise PackagingError(Path("AWS"), "it cannot be asked", "try again")

    (project / "environments" / "prod.toml").write_text(VALID)
    monkeypatch.chdir(project)
    monkeypatch.setattr(command, "open_account", refused)
    assert command.history.main(["prod"], standalone_mode=False) == 2


@pytest.mark.parametrize(
    ("number", "live", "known", "state"),
    [
        (2, True, True, "live"),
        (1, False, True, "earlier"),
        (None, False, True, "never live"),
        (1, False, False, "not known"),
        (None, False, False, "not known"),
    ],
)
def test_each_state_has_a_word(number: int | None, live: bool, known: bool, state: str) -> None:
    deployment = Deployment(
        number=number, time="", live=live, fingerprint="f", record=None, state_known=known
    )
    assert command._format_cells(deployment)[2] == state
