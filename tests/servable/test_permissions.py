"""`servable permissions` writes the policies and prints the commands that use them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servable.permissions.command import permissions
from tests.checkouts import ROOT


def ran(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.chdir(ROOT)
    return CliRunner().invoke(permissions, arguments)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, list[Path]]:
    """What it prints for prod, and the files."""
    result = ran("prod", "--out", str(tmp_path / "new"), monkeypatch=monkeypatch)
    assert result.exit_code == 0, result.output
    return result.output, sorted((tmp_path / "new").iterdir())


def test_each_policy_is_a_file_with_its_commands_and_two_accounts_are_refused(
    written: tuple[str, list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = [json.loads(file.read_text())["Version"] for file in written[1]]
    assert versions == ["2012-10-17", "2012-10-17"]

    said, files = written
    arns = ",".join(f"arn:aws:iam::333333333333:policy/{file.stem}" for file in files)
    line = (
        f"cdk bootstrap aws://333333333333/eu-west-1 --cloudformation-execution-policies '{arns}'"
    )
    assert line in said
    assert [f"--policy-document file://{file}" in said for file in files] == [True, True]
    result = ran("prod", "staging", "--out", str(tmp_path), monkeypatch=monkeypatch)
    assert (result.exit_code, "one account and region" in result.output) == (2, True)
