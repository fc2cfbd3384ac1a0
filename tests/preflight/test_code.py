"""Code that the image would not import, requirements that are not at hand, and versions that collide."""

import shutil
from pathlib import Path

import pytest

from infra.catalog import images
from infra.parameters.finding import Severity
from infra.preflight.check import check, check_all, select_errors
from model_packaging.beside import WHEELS
from model_packaging.dependencies.wheels import lock
from tests.conftest import VALID, Environment
from tests.findings import Message, messages
from tests.packaging.wheelhouse import wheel

WITH_CODE = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
AT_START = WITH_CODE.replace('code = "code"', 'code = "code"\ninstall = "at start"')
HANDLER = "def handler(data, context): ...\n"


def said(environment: Environment, text: str = WITH_CODE) -> list[Message]:
    return messages(check(environment(text)))


def write_handler(project: Path, *lines: str, handler: str = HANDLER) -> None:
    (project / "code" / "inference.py").write_text("".join(f"{line}\n" for line in lines) + handler)


def severities(environment: Environment, text: str, rule: str = "code") -> list[Severity]:
    return [one.severity for one in check_all(environment(text)) if one.rule == rule]


@pytest.mark.long
def test_a_fault_names_its_line_with_every_version(environment: Environment, project: Path) -> None:
    write_handler(project, "import json", "import tensorflow as tf")
    (found,) = said(environment)
    assert found.problem.startswith("code/inference.py:2: imports tensorflow; ")

    write_handler(project, "x = 1", handler="")
    problem = "code/inference.py:1: defines no handler"
    remedy = "define handler(data, context), or both input_handler and output_handler"
    assert said(environment) == [("models.ranker.code", problem, "", remedy)]

    write_handler(project, "X = nowhere", "import nosuch")
    for version in sorted({".".join(one.split(".")[:2]) for one in images.list_versions()}):
        text = WITH_CODE.replace("2.20", version)
        assert severities(environment, text) == [Severity.ERROR] * 2, version


def test_requirements_or_hooks_alone_are_code(environment: Environment, project: Path) -> None:
    code = project / "code"
    (code / "inference.py").unlink()
    (code / "requirements.txt").write_text("numpy\n")
    old = WITH_CODE.replace("2.20", "2.19").replace("code =", 'handler = "servable"\ncode =')
    assert not any("Servable's handler needs" in found.problem for found in said(environment, old))

    (code / "requirements.txt").write_text("plain\n")
    (code / "transforms.py").write_text("def preprocess(body, context): ...\n")
    problem = "code/requirements.txt: has no requirements.lock next to it"
    remedy = "run `servable package prod`"
    assert said(environment) == [("models.ranker.code", problem, "", remedy)]
    (code / "requirements.txt").write_text("# nothing yet\n")
    assert said(environment) == []


def test_a_client_of_aws_in_isolation_is_a_warning(environment: Environment, project: Path) -> None:
    write_handler(project, "import requests", "from boto3 import client")
    own = WITH_CODE.replace("code =", "network_isolation = true\ncode =")
    for text in [own, f"security.network_isolation = true\n{WITH_CODE}"]:
        (found,) = (one for one in check(environment(text)) if one.rule == "isolation-calls")
        problem = "code/inference.py:2 imports boto3, whose calls network_isolation blocks"
        assert (found.severity, found.problem) == (Severity.WARNING, problem)
    assert severities(environment, WITH_CODE, "isolation-calls") == []


@pytest.fixture
def locked(project: Path) -> None:
    (project / "house").mkdir()
    wheel(project / "house", "plain")
    (project / "code" / "requirements.txt").write_text("plain\n")
    lock(project / "code", python="3.12", wheels=project / WHEELS, find_links=project / "house")


@pytest.mark.long
@pytest.mark.usefixtures("locked")
def test_locked_requirements_are_clean_but_at_start_a_warning(environment: Environment) -> None:
    assert said(environment) == []
    assert [finding.severity for finding in check(environment(AT_START))] == [Severity.WARNING]


def test_what_pip_cannot_follow_at_start_is_an_error_and_the_minutes_are_named(
    environment: Environment, project: Path
) -> None:
    (project / "code" / "requirements.txt").write_text("orjson\n-i https://t0ken@host/simple\n")
    (found,) = select_errors(check(environment(AT_START)))
    assert (found.rule, found.key) == ("code-fails-at-start", "models.ranker.code")
    assert found.problem == (
        "code/requirements.txt:2: '-i https://***@host/simple' contains credentials, which anyone with "
        "access to the archive can read"
    )

    (project / "code" / "requirements.txt").write_text("orjson\n")
    table = "serverless = { memory_mib = 2048, max_concurrency = 5 }\n"
    sentence = "on Serverless Inference, pip and the model's load share 3 minutes"
    for text in (AT_START, AT_START + table):
        found = check(environment(text))
        (problem,) = [one.problem for one in found if one.rule == "code-installed-at-start"]
        assert (sentence in problem) is problem.endswith(sentence) is (text != AT_START)


def test_servables_handler_needs_an_image_with_numpy(environment: Environment) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.19"\nhandler = "servable"')
    (found,) = select_errors(check(environment(text)))
    problem = "Servable's handler needs numpy, which the image of TensorFlow 2.19 does not have"
    assert found.problem == problem
    assert [str(finding) for finding in check(environment(text.replace("2.19", "2.20")))] == []

    text = WITH_CODE.replace("code =", f'{OWN}\nhandler = "servable"\ncode =')
    assert severities(environment, text, "handler-modules") == [Severity.NOT_CHECKED]


OWN = 'image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/mine:1"'


def test_an_own_image_has_names_checked_no_imports(environment: Environment, project: Path) -> None:
    judged = {"import tensorflow": Severity.NOT_CHECKED, "X = nowhere": Severity.ERROR}
    for line, severity in judged.items():
        write_handler(project, line)
        assert severities(environment, WITH_CODE.replace("code =", f"{OWN}\ncode =")) == [severity]


def test_a_variable_of_the_code_is_set_everywhere(environment: Environment, project: Path) -> None:
    # The second one is read into a key.
    for name in ("TABLE", "TF_ENABLE_ONEDNN_OPTS"):
        write_handler(project, "import os", f"X = os.environ['{name}']")
        given = f'environment = {{ {name} = "0" }}\n'
        assert len(severities(environment, WITH_CODE)) == 1
        assert severities(environment, WITH_CODE + given) == []


MODELS = "".join(f'[models.{name}]\nsaved_model = "model"\ncode = "{name}"\n' for name in "abc")


def packages_said(environment: Environment, members: str = '"a", "b"') -> list[Message]:
    text = VALID.replace('saved_model = "model"', f"multi_model = [{members}]") + MODELS
    return messages(one for one in check(environment(text)) if one.rule == "multi-model-packages")


REFUSED = (
    "models.ranker.multi_model",
    "plain is 2.0 in the code of 'b', and 1.0 in that of 'a'; they share one process",
    "",
    "name one version in the requirements.txt of both, and run `servable package prod`",
)


def write_lib(project: Path, model: str, *packages: str) -> None:
    """Code whose own lib/ holds these packages."""
    shutil.rmtree(project / model, ignore_errors=True)
    for package in packages:
        (project / model / "lib" / f"{package}.dist-info").mkdir(parents=True)
    (project / model / "inference.py").write_text("def handler(data, context): ...\n")


def test_two_versions_of_a_package_are_refused(environment: Environment, project: Path) -> None:
    write_lib(project, "a", "plain-1.0")
    write_lib(project, "b", "plain-2.0", "other-1.0")
    write_lib(project, "c", "other-1.0")
    assert packages_said(environment) == [REFUSED]
    for members in ['"a", "absent"', '"a"', '"b", "c"', '"a", "c"']:
        assert packages_said(environment, members) == []


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
    assert packages_said(environment) == [REFUSED]
    write_lib(project, "b", "plain-1.0")
    assert packages_said(environment) == []
    write_lib(project, "b", "plain-2.0")
    assert packages_said(environment) == [REFUSED]
