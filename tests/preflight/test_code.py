"""Code that the image would not import, and requirements that are not at hand."""

from pathlib import Path

import pytest

from infra.catalog import images
from infra.parameters.finding import Severity
from infra.preflight.check import check, check_all, select_errors
from model_packaging.beside import WHEELS
from model_packaging.dependencies import lock
from tests.conftest import VALID, Environment
from tests.findings import Message, messages
from tests.packaging.wheelhouse import wheel

WITH_CODE = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')


def said(environment: Environment, text: str = WITH_CODE) -> list[Message]:
    return messages(check(environment(text)))


def test_tensorflow_in_a_handler_and_a_missing_handler_name_file_and_line(
    environment: Environment, project: Path
) -> None:
    code = "import json\nimport tensorflow as tf\ndef handler(data, context): ...\n"
    (project / "code" / "inference.py").write_text(code)
    (found,) = said(environment)
    assert found.problem.startswith("code/inference.py:2: imports tensorflow; ")

    (project / "code" / "inference.py").write_text("x = 1\n")
    assert said(environment) == [
        (
            "models.ranker.code",
            "code/inference.py:1: defines no handler",
            "",
            "define handler(data, context), or both input_handler and output_handler",
        )
    ]


def test_a_folder_with_requirements_alone_brings_what_the_handler_needs(
    environment: Environment, project: Path
) -> None:
    (project / "code" / "inference.py").unlink()
    (project / "code" / "requirements.txt").write_text("numpy\n")
    old = WITH_CODE.replace("2.20", "2.19").replace("code =", 'handler = "servable"\ncode =')
    assert not any("Servable's handler needs" in found.problem for found in said(environment, old))


def test_a_client_of_aws_in_an_isolated_container_is_a_warning(
    environment: Environment, project: Path
) -> None:
    for switch in ["models.ranker", "security"]:
        code = "import requests\nfrom boto3 import client\ndef handler(data, context): ...\n"
        (project / "code" / "inference.py").write_text(code)
        text = WITH_CODE.replace('code = "code"', 'code = "code"\nnetwork_isolation = true')
        if switch == "security":
            text = f"security.network_isolation = true\n{WITH_CODE}"
        found = [one for one in check(environment(text)) if one.rule == "isolation-calls"]
        assert [one.problem for one in found] == [
            "code/inference.py:2 imports boto3, whose calls network_isolation blocks"
        ]
        assert found[0].severity is Severity.WARNING
        assert "isolation-calls" not in {one.rule for one in check(environment(WITH_CODE))}


def test_requirements_without_a_lock_name_the_command(
    environment: Environment, project: Path
) -> None:
    (project / "code" / "requirements.txt").write_text("plain\n")
    assert said(environment) == [
        (
            "models.ranker.code",
            "code/requirements.txt: has no requirements.lock next to it",
            "",
            "run `servable package prod`",
        )
    ]
    (project / "code" / "requirements.txt").write_text("# nothing yet\n")
    assert said(environment) == []


@pytest.fixture
def locked(project: Path) -> None:
    (project / "house").mkdir()
    wheel(project / "house", "plain")
    (project / "code" / "requirements.txt").write_text("plain\n")
    lock(project / "code", python="3.12", wheels=project / WHEELS, find_links=project / "house")


@pytest.mark.usefixtures("locked")
def test_locked_requirements_are_clean_and_installing_at_start_is_a_warning(
    environment: Environment,
) -> None:
    assert said(environment) == []
    text = WITH_CODE.replace('code = "code"', 'code = "code"\ninstall = "at start"')
    assert [finding.severity for finding in check(environment(text))] == [Severity.WARNING]


AT_START = WITH_CODE.replace('code = "code"', 'code = "code"\ninstall = "at start"')


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
    serverless = AT_START.replace(
        "[variants.primary]",
        "[variants.primary]\nserverless = { memory_mib = 2048, max_concurrency = 5 }",
    )
    sentence = "on Serverless Inference, pip and the model's load share 3 minutes"
    found = {
        text: [one for one in check(environment(text)) if one.rule == "code-installed-at-start"]
        for text in (AT_START, serverless)
    }
    assert sentence not in found[AT_START][0].problem
    assert found[serverless][0].problem.endswith(sentence)


def test_hooks_alone_are_code(environment: Environment, project: Path) -> None:
    (project / "code" / "inference.py").unlink()
    (project / "code" / "transforms.py").write_text("def preprocess(body, context): ...\n")
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "code"')
    assert [str(finding) for finding in check(environment(text))] == []


def test_servables_handler_needs_an_image_with_numpy(environment: Environment) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.19"\nhandler = "servable"')
    (found,) = select_errors(check(environment(text)))
    assert found.problem == (
        "Servable's handler needs numpy, which the image of TensorFlow 2.19 does not have"
    )

    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nhandler = "servable"')
    assert [str(finding) for finding in check(environment(text))] == []

    text = WITH_CODE.replace("code =", f'{OWN}\nhandler = "servable"\ncode =')
    severities = [
        one.severity for one in check_all(environment(text)) if one.rule == "handler-modules"
    ]
    assert severities == [Severity.NOT_CHECKED]


VERSIONS = sorted({".".join(one.split(".")[:2]) for one in images.list_versions()})


@pytest.mark.parametrize("version", VERSIONS)
def test_no_version_is_passed_over(environment: Environment, project: Path, version: str) -> None:
    text = "X = nowhere\nimport nosuch\ndef handler(data, context): ...\n"
    (project / "code" / "inference.py").write_text(text)
    found = check(environment(WITH_CODE.replace("2.20", version)))
    assert [one.severity for one in found if one.rule == "code"] == [Severity.ERROR] * 2


OWN = 'image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/mine:1"'


def test_an_own_image_has_names_checked_and_no_imports(
    environment: Environment, project: Path
) -> None:
    for line, severity in [
        ("import tensorflow", Severity.NOT_CHECKED),
        ("X = nowhere", Severity.ERROR),
    ]:
        (project / "code" / "inference.py").write_text(f"{line}\ndef handler(data, context): ...\n")
        found = check_all(environment(WITH_CODE.replace("code =", f"{OWN}\ncode =")))
        assert [one.severity for one in found if one.rule == "code"] == [severity]


def test_a_variable_that_the_code_reads_is_set_in_every_variant(
    environment: Environment, project: Path
) -> None:
    for variables, count in [('environment = { TABLE = "x" }', 0), ("", 1)]:
        code = "import os\nX = os.environ['TABLE']\ndef handler(data, context): ...\n"
        (project / "code" / "inference.py").write_text(code)
        text = f"{WITH_CODE}{variables}\n"
        assert len([one for one in check(environment(text)) if one.rule == "code"]) == count


def test_a_variable_that_is_read_into_a_key_is_set(environment: Environment, project: Path) -> None:
    code = "import os\nX = os.environ['TF_ENABLE_ONEDNN_OPTS']\ndef handler(data, context): ...\n"
    (project / "code" / "inference.py").write_text(code)
    pasted = 'environment = { TF_ENABLE_ONEDNN_OPTS = "0" }\n'
    found = [check(environment(WITH_CODE + more)) for more in ("", pasted)]
    assert [[one.rule for one in each].count("code") for each in found] == [1, 0]
