"""Code that the image would not import, and requirements that are not at hand."""

from pathlib import Path

import pytest

from infra.parameters.finding import Severity
from infra.preflight.check import check, errors
from model_packaging.dependencies import lock
from model_packaging.places import WHEELS
from tests.conftest import VALID, Environment
from tests.findings import Message, messages
from tests.packaging.wheelhouse import wheel

WITH_CODE = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')


def said(environment: Environment, text: str = WITH_CODE) -> list[Message]:
    return messages(check(environment(text)))


def test_tensorflow_in_a_handler_names_file_and_line(
    environment: Environment, project: Path
) -> None:
    code = "import json\nimport tensorflow as tf\ndef handler(data, context): ...\n"
    (project / "code" / "inference.py").write_text(code)
    (found,) = said(environment)
    assert found.problem.startswith("code/inference.py:2: imports tensorflow; ")


def test_a_folder_with_requirements_alone_brings_what_the_handler_needs(
    environment: Environment, project: Path
) -> None:
    (project / "code" / "inference.py").unlink()
    (project / "code" / "requirements.txt").write_text("numpy\n")
    old = WITH_CODE.replace("2.20", "2.19").replace("code =", 'handler = "servable"\ncode =')
    assert not any("Servable's handler needs" in found.problem for found in said(environment, old))


def test_code_without_a_handler_is_refused(environment: Environment, project: Path) -> None:
    (project / "code" / "inference.py").write_text("x = 1\n")
    assert said(environment) == [
        (
            "models.ranker.code",
            "code/inference.py:1: defines no handler",
            "",
            "define handler(data, context), or both input_handler and output_handler",
        )
    ]


def test_requirements_without_a_lock_name_the_command(
    environment: Environment, project: Path
) -> None:
    (project / "code" / "requirements.txt").write_text("plain\n")
    assert said(environment) == [
        (
            "models.ranker.code",
            "code/requirements.txt: has no requirements.lock beside it",
            "",
            "run: servable package prod",
        )
    ]


@pytest.fixture
def locked(project: Path) -> None:
    (project / "house").mkdir()
    wheel(project / "house", "plain")
    (project / "code" / "requirements.txt").write_text("plain\n")
    lock(project / "code", python="3.12", wheels=project / WHEELS, find_links=project / "house")


@pytest.mark.usefixtures("locked")
def test_locked_requirements_are_clean(environment: Environment) -> None:
    assert said(environment) == []


@pytest.mark.usefixtures("locked")
def test_installing_at_start_is_a_warning(environment: Environment) -> None:
    text = WITH_CODE.replace('code = "code"', 'code = "code"\ninstall = "at start"')
    assert [finding.severity for finding in check(environment(text))] == [Severity.WARNING]


def test_hooks_alone_are_code(environment: Environment, project: Path) -> None:
    (project / "code" / "inference.py").unlink()
    (project / "code" / "transforms.py").write_text("def preprocess(body, context): ...\n")
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    assert [str(finding) for finding in check(environment(text))] == []


def test_our_handler_needs_an_image_with_numpy(environment: Environment) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.19"\nhandler = "servable"')
    (found,) = errors(check(environment(text)))
    assert found.problem == (
        "Servable's handler needs numpy, which the image of TensorFlow 2.19 does not have"
    )


def test_our_handler_runs_in_the_newest_image(environment: Environment) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nhandler = "servable"')
    assert [str(finding) for finding in check(environment(text))] == []
