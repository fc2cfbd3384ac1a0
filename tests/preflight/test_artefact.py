"""A model that the container would not load is refused before it leaves the computer."""

import shutil
from pathlib import Path

from infra.parameters.finding import Severity
from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

SOURCE = "models.ranker.saved_model"


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

    graph.unlink()
    remedy = "export the SavedModel into it"
    assert said(environment) == [(SOURCE, "model/1: has no saved_model.pb", "", remedy)]
    shutil.rmtree(project / "model")
    problem = "model: the SavedModel folder does not exist"
    remedy = "use a folder that contains version folders"
    assert said(environment) == [(SOURCE, problem, "", remedy)]


def test_a_savedmodel_is_in_a_folder_of_its_version(
    environment: Environment, project: Path
) -> None:
    folder, named = project / "model", project / "model" / "1"
    for name, remedy in [
        ("latest", "rename model/latest to model/1"),
        ("v07", "rename model/v07 to model/7"),
        ("v0.1", "rename model/v0.1 to model/1"),
    ]:
        named = named.rename(folder / name)
        problem = "model: has no version folder named with digits only"
        assert said(environment) == [(SOURCE, problem, "", remedy)]
    shutil.copytree(named, folder / "v12")
    (found,) = said(environment)
    assert found.remedy == "rename v0.1, v12 to numbers, such as 1"

    moved = named.rename(project / "moved")
    shutil.rmtree(folder)
    folder.mkdir()
    assert said(environment)[0].remedy == "export the SavedModel to model/1/"
    folder.rmdir()
    moved.rename(folder)
    assert said(environment)[0].remedy == (
        "move its content to model/1/, or set version = 1 next to saved_model"
    )
    assert said(environment, VALID.replace('"model"', '"model"\nversion = 3')) == []


HANDLER = "def handler(data, context):\n    return data.read(), 'text/plain'\n"


def test_code_inside_a_model_is_not_dropped_in_silence(
    environment: Environment, project: Path
) -> None:
    unread = "inside the version, where the container never reads it"
    for place, given, problem, remedy in [
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
            f"model/1/code contains inference.py {unread}",
            'move it to code/, and write code = "code" next to saved_model',
        ),
    ]:
        (project / place).mkdir(exist_ok=True)
        handler = project / place / "inference.py"
        handler.write_text(HANDLER)
        text = VALID.replace('tensorflow = "2.20"', f'tensorflow = "2.20"\n{given}')
        assert said(environment, text) == [(SOURCE, problem, "", remedy)]
        handler.unlink()


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


def test_a_model_without_the_signature_that_requests_ask_for_is_a_warning(
    environment: Environment, project: Path
) -> None:
    graph = project / "model" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes().replace(b"serving_default", b"serving_special"))
    assert said(environment) == [
        (
            SOURCE,
            "version 1 has no signature serving_default, which requests without a signature name "
            "use; it has serving_special",
            "",
            'export with signatures={"serving_default": …}, or accept it',
        )
    ]


HASH = "0123456789abcdef" * 4
PINNED = VALID.replace(
    'saved_model = "model"',
    f'artifact = {{ uri = "s3://models/run-17/model.tar.gz", sha256 = "{HASH.upper()}" }}',
)


def test_an_artifact_with_its_hash_replaces_a_saved_model(environment: Environment) -> None:
    loaded = environment(PINNED)
    assert check(loaded) == []
    assert loaded.environment.models["ranker"].artifact.sha256 == HASH
    (problem,) = said(environment, PINNED.replace(HASH.upper(), "abc"))
    assert problem[:2] == (
        "models.ranker.artifact.sha256",
        "'abc' does not have the required format",
    )
    # A key that will be written again, in any folder and case.
    (found,) = check(environment(PINNED.replace("run-17", "a/Current/b")))
    assert (found.rule, found.severity) == ("artifact-moving-key", Severity.WARNING)
    text = VALID.replace('saved_model = "model"\n', "")
    assert said(environment, text)[0].problem == "neither saved_model nor artifact is given"
