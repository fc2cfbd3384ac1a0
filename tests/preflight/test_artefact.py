"""A model that the container would not load is refused before it leaves the computer."""

import shutil
from pathlib import Path

import pytest

from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages


def said(environment: Environment, text: str = VALID) -> list[Message]:
    return messages(check(environment(text)))


def test_each_damage_of_a_savedmodel_is_named(environment: Environment, project: Path) -> None:
    for shard in (project / "model" / "1" / "variables").glob("*.data-*"):
        shard.unlink()
    (found,) = said(environment)
    assert found.problem.startswith("model/1/variables")

    graph = project / "model" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:1000])
    (found,) = said(environment)
    assert found.problem.startswith("model/1/saved_model.pb: ")

    (project / "model" / "1" / "saved_model.pb").unlink()
    assert said(environment) == [
        (
            "models.ranker.saved_model",
            "model/1: has no saved_model.pb",
            "",
            "export the SavedModel into it",
        )
    ]
    shutil.rmtree(project / "model")
    assert said(environment) == [
        (
            "models.ranker.saved_model",
            "model: the SavedModel folder does not exist",
            "",
            "use a folder that contains version folders",
        )
    ]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("latest", "rename model/latest to model/1"),
        ("v07", "rename model/v07 to model/7"),
        ("v0.1", "rename model/v0.1 to model/1"),
    ],
)
def test_a_savedmodel_without_a_numeric_version_is_refused(
    environment: Environment, project: Path, name: str, remedy: str
) -> None:
    (project / "model" / "1").rename(project / "model" / name)
    assert said(environment) == [
        (
            "models.ranker.saved_model",
            "model: has no version folder named with digits only",
            "",
            remedy,
        )
    ]
    shutil.copytree(project / "model" / name, project / "model" / "v12")
    (found,) = said(environment)
    assert found.remedy == f"rename {', '.join(sorted([name, 'v12']))} to numbers, such as 1"
    shutil.rmtree(project / "model")
    (project / "model").mkdir()
    assert said(environment)[0].remedy == "export the SavedModel to model/1/"


def test_a_savedmodel_without_a_version_folder_says_where_to_move_it(
    environment: Environment, project: Path
) -> None:
    (project / "model" / "1").rename(project / "moved")
    (project / "model").rmdir()
    (project / "moved").rename(project / "model")
    assert said(environment)[0].remedy == (
        "move its content to model/1/, or set version = 1 next to saved_model"
    )


HANDLER = "def handler(data, context):\n    return data.read(), 'text/plain'\n"


@pytest.mark.parametrize(
    ("place", "given", "problem", "remedy"),
    [
        (
            "model/code",
            "",
            "model/code contains inference.py, which isn't packed: code has its own key",
            'write code = "model/code" next to saved_model',
        ),
        (
            "model",
            "",
            "model contains inference.py, which isn't packed: code has its own key",
            'move it to model-code/, and write code = "model-code" next to saved_model',
        ),
        (
            "model/1/code",
            'code = "code"',
            "model/1/code contains inference.py inside the version, where the container never reads it",
            'move it to code/, and write code = "code" next to saved_model',
        ),
    ],
)
def test_code_inside_a_model_is_not_dropped_in_silence(
    environment: Environment, project: Path, place: str, given: str, problem: str, remedy: str
) -> None:
    (project / place).mkdir(exist_ok=True)
    (project / place / "inference.py").write_text(HANDLER)
    text = VALID.replace('tensorflow = "2.20"', f'tensorflow = "2.20"\n{given}')
    assert said(environment, text) == [("models.ranker.saved_model", problem, "", remedy)]


def test_code_needs_inference_py_in_the_folder_that_the_file_names(
    environment: Environment, project: Path
) -> None:
    (project / "code" / "inference.py").unlink()
    text = VALID.replace('tensorflow = "2.20"', 'code = "code"')
    assert said(environment, text) == [
        (
            "models.ranker.code",
            "code: has no inference.py",
            "",
            "add inference.py, or transforms.py with hooks, or remove `code`",
        )
    ]

    (project / "model" / "code").mkdir()
    (project / "model" / "code" / "inference.py").write_text(HANDLER)
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "model/code"')
    assert said(environment, text) == []


@pytest.mark.parametrize(("name", "found"), [(b"serving_default", 0), (b"serving_special", 1)])
def test_a_model_without_the_signature_that_requests_ask_for_is_a_warning(
    environment: Environment, project: Path, name: bytes, found: int
) -> None:
    graph = project / "model" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes().replace(b"serving_default", name))
    assert said(environment) == found * [
        (
            "models.ranker.saved_model",
            "version 1 has no signature serving_default, which requests without a signature name "
            "use; it has serving_special",
            "",
            'export with signatures={"serving_default": …}, or accept it',
        )
    ]
