"""Models of one multi-model endpoint whose code/lib/ would hold two versions of a package."""

from pathlib import Path

import pytest

from infra.preflight.check import check
from model_packaging.beside import WHEELS
from model_packaging.dependencies import lock
from tests.conftest import VALID, Environment
from tests.findings import Message, messages
from tests.packaging.wheelhouse import wheel

pytestmark = pytest.mark.long

TWO = (
    VALID.replace('saved_model = "model"', 'multi_model = ["one", "two"]')
    + '[models.one]\nsaved_model = "model"\ncode = "one"\n'
    + '[models.two]\nsaved_model = "model"\ncode = "two"\n'
)


def said(environment: Environment, text: str = TWO) -> list[Message]:
    return messages(check(environment(text)))


def code(project: Path, model: str, version: str) -> None:
    """Code that vendors the package `plain` in that version."""
    house, folder = project / f"house-{version}", project / model
    if not house.exists():
        house.mkdir()
        wheel(house, "plain", version)
    folder.mkdir()

    (folder / "transforms.py").write_text("import plain\ndef preprocess(body, context): ...\n")
    (folder / "requirements.txt").write_text(f"plain=={version}\n")
    lock(folder, python="3.12", wheels=project / WHEELS, find_links=house)


def test_two_versions_of_a_package_are_refused_in_one_endpoint_alone(
    environment: Environment, project: Path
) -> None:
    code(project, "one", "1.0")
    code(project, "two", "2.0")
    assert said(environment) == [
        (
            "models.ranker.multi_model",
            "plain is 2.0 in the code of 'two', and 1.0 in that of 'one'; they share one process",
            "",
            "name one version in the requirements.txt of both, and run `servable package prod`",
        )
    ]

    assert said(environment, TWO.replace('["one", "two"]', '["one"]')) == []


def test_one_version_in_both_is_clean(environment: Environment, project: Path) -> None:
    code(project, "one", "1.0")
    code(project, "two", "1.0")
    assert said(environment) == []


@pytest.mark.parametrize(("version", "findings"), [("1.0", 0), ("2.0", 1)])
def test_a_lib_of_ones_own_counts_too(
    version: str, findings: int, environment: Environment, project: Path
) -> None:
    code(project, "one", "1.0")
    (project / "two" / "lib" / f"plain-{version}.dist-info").mkdir(parents=True)
    (project / "two" / "inference.py").write_text("def handler(data, context): ...\n")
    assert len(said(environment)) == findings
