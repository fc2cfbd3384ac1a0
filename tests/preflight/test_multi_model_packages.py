"""Models of one multi-model endpoint whose code/lib/ would hold two versions of a package."""

import shutil
from pathlib import Path

import pytest

from infra.preflight.check import check
from model_packaging.beside import WHEELS
from model_packaging.dependencies.wheels import lock
from tests.conftest import VALID, Environment
from tests.findings import Message, messages
from tests.packaging.wheelhouse import wheel

MODELS = "".join(f'[models.{name}]\nsaved_model = "model"\ncode = "{name}"\n' for name in "abc")


def said(environment: Environment, members: str = '"a", "b"') -> list[Message]:
    text = VALID.replace('saved_model = "model"', f"multi_model = [{members}]") + MODELS
    found = check(environment(text))
    return messages(one for one in found if one.rule == "multi-model-packages")


REFUSED = (
    "models.ranker.multi_model",
    "plain is 2.0 in the code of 'b', and 1.0 in that of 'a'; they share one process",
    "",
    "name one version in the requirements.txt of both, and run `servable package prod`",
)


def with_lib(project: Path, model: str, *packages: str) -> None:
    """Code whose own lib/ holds these packages."""
    shutil.rmtree(project / model, ignore_errors=True)
    for package in packages:
        (project / model / "lib" / f"{package}.dist-info").mkdir(parents=True)
    (project / model / "inference.py").write_text("def handler(data, context): ...\n")


def test_two_versions_of_a_package_in_libs_of_ones_own_are_refused(
    environment: Environment, project: Path
) -> None:
    with_lib(project, "a", "plain-1.0")
    with_lib(project, "b", "plain-2.0", "other-1.0")
    with_lib(project, "c", "other-1.0")
    assert said(environment) == [REFUSED]
    for members in ['"a", "absent"', '"a"', '"b", "c"', '"a", "c"']:
        assert said(environment, members) == []


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


@pytest.mark.long
def test_packages_that_pip_puts_there_count_as_those_of_a_lib_of_ones_own(
    environment: Environment, project: Path
) -> None:
    code(project, "a", "1.0")
    code(project, "b", "2.0")
    assert said(environment) == [REFUSED]
    with_lib(project, "b", "plain-1.0")
    assert said(environment) == []
    with_lib(project, "b", "plain-2.0")
    assert said(environment) == [REFUSED]
