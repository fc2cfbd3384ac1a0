"""`servable history ENV`: what is printed."""

import re
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner

from model_packaging.refusal import PackagingError
from servable.history import command
from servable.history.deployments import Deployment


def test_a_deployment_has_a_row_with_the_word_of_its_state_and_its_overrides_below(
    prod: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deployment(number: int | None, live: bool, **more: Any) -> Deployment:
        fields = {"time": "2026-11-22 20:00:00+00:00", "fingerprint": "f" * 64, "record": None}
        return Deployment(number=number, live=live, **fields | more)

    listed = deployment(1, True, record={"overrides": {"endpoint.name": "x"}, "revision": "abc"})
    monkeypatch.setattr(command, "open_account", lambda *given, **options: None)
    monkeypatch.setattr(command, "list_deployments", lambda *given: [listed])
    ran = CliRunner().invoke(command.history, ["prod"], standalone_mode=False)
    heads, cells, *below = ran.stdout.splitlines()
    columns = [heads.index(head) for head in re.split(r" {2,}", heads)]
    assert [re.split(r" {2,}", cells[column:])[0] for column in columns] == [
        "1", "2026-11-22 20:00:00", "live", "ffffffffffff", "abc", "unknown",
    ]  # fmt: skip
    assert below == ["    override: endpoint.name=x"]
    for number, live, known, state in [
        (2, True, True, "live"),
        (1, False, True, "earlier"),
        (None, False, True, "never live"),
        (1, False, False, "not known"),
        (None, False, False, "not known"),
    ]:
        assert command._format_cells(deployment(number, live, state_known=known))[2] == state
    refused = PackagingError(Path("AWS"), "it cannot be asked", "try again")
    monkeypatch.setattr(command, "open_account", Mock(side_effect=refused))
    assert command.history.main(["prod"], standalone_mode=False) == 2
