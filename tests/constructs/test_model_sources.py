"""How a model's bytes are published: files under a prefix, archives under a prefix, one archive."""

import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.recording import FOLDER
from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesised, stack_of

Synthesise = Callable[..., Synthesised]
UNPACKED = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncompression = "none"')
MULTI = (
    VALID.replace('saved_model = "model"', 'multi_model = ["one", "two"]')
    + '[models.one]\nsaved_model = "model"\n[models.two]\nsaved_model = "model"\n'
)


def container(found: Synthesised) -> dict[str, Any]:
    said: dict[str, Any] = found.one("AWS::SageMaker::Model")["PrimaryContainer"]
    return said


def prefix(url: str) -> str:
    return url.split("/")[-2]


def assets(environment: Environment, text: str) -> dict[str, list[str]]:
    """Object keys, and the command that makes each object; of models, not of the record."""
    stack = stack_of(environment, text)
    stage = stack.node.scope
    assembly = stage.synth()  # type: ignore[union-attr]
    (file,) = Path(assembly.directory).glob("*.assets.json")
    files = json.loads(file.read_text())["files"].values()
    found = {}
    for one in files:
        (destination,) = one["destinations"].values()
        key = destination["objectKey"]
        if "executable" in one["source"] and not key.startswith(FOLDER):
            found[key] = one["source"]["executable"]
    return found


def listed(found: Synthesised) -> list[dict[str, Any]]:
    return [
        statement
        for policy in found.all("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "s3:ListBucket"
    ]


def test_without_compression_the_model_is_a_prefix(synthesise: Synthesise) -> None:
    source = container(synthesise(UNPACKED))["ModelDataSource"]["S3DataSource"]
    assert (source["CompressionType"], source["S3DataType"]) == ("None", "S3Prefix")
    assert json.dumps(source["S3Uri"]).rstrip('"}]').endswith("/")


def test_every_file_of_the_model_is_uploaded(environment: Environment, project: Path) -> None:
    keys = {key.partition("/")[2] for key in assets(environment, UNPACKED)}
    files = {
        f"ranker/{path.relative_to(project / 'model')}"
        for path in (project / "model").rglob("*")
        if path.is_file()
    }
    assert keys == files

    assert {command[0] for command in assets(environment, UNPACKED).values()} == {sys.executable}

    commands = assets(environment, UNPACKED)
    graph = next(command for key, command in commands.items() if key.endswith("saved_model.pb"))
    ran = subprocess.run(graph, check=True, capture_output=True, text=True)
    assert ran.stdout.strip() == str(project / "model" / "1" / "saved_model.pb")


def test_another_content_is_another_prefix(environment: Environment, project: Path) -> None:
    before = {key.split("/")[0] for key in assets(environment, UNPACKED)}
    (project / "model" / "1" / "assets" / "words.txt").parent.mkdir(exist_ok=True)
    (project / "model" / "1" / "assets" / "words.txt").write_text("another")
    assert before.isdisjoint(key.split("/")[0] for key in assets(environment, UNPACKED))


def test_a_file_that_changed_since_synth_is_not_uploaded(
    environment: Environment, project: Path
) -> None:
    commands = assets(environment, UNPACKED)
    graph = project / "model" / "1" / "saved_model.pb"
    graph.write_bytes(b"another")
    command = next(one for key, one in commands.items() if key.endswith("saved_model.pb"))
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (
        1,
        f"{graph}: changed between synth and publishing; deploy again\n",
    )


def test_a_role_lists_its_own_prefix_and_nothing_for_one_archive(synthesise: Synthesise) -> None:
    for text in [UNPACKED, MULTI]:
        (statement,) = listed(synthesise(text))
        (allowed,) = (value for value in statement["Condition"]["StringLike"].values())
        assert json.dumps(allowed).count("*") == 1
        assert len(prefix(json.dumps(allowed))) >= 64
    assert listed(synthesise()) == []


def test_several_models_run_in_multi_model_mode_from_archives_under_one_prefix(
    synthesise: Synthesise, environment: Environment
) -> None:
    assert container(synthesise(MULTI))["Mode"] == "MultiModel"
    assert "SAGEMAKER_TFS_DEFAULT_MODEL_NAME" not in container(synthesise(MULTI))["Environment"]
    keys = sorted(assets(environment, MULTI))
    assert [key.partition("/")[2] for key in keys] == ["one.tar.gz", "two.tar.gz"]

    commands = assets(environment, MULTI)
    one = next(command for key, command in commands.items() if key.endswith("one.tar.gz"))
    ran = subprocess.run(one, check=True, capture_output=True, text=True)
    with tarfile.open(ran.stdout.strip()) as opened:
        assert "1/saved_model.pb" in opened.getnames()


def test_models_in_one_archive_are_all_in_it_and_the_first_answers(
    environment: Environment, synthesise: Synthesise
) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nalso_serves = ["scorer"]')
    (command,) = assets(environment, text + '[models.scorer]\nsaved_model = "model"\n').values()
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    with tarfile.open(ran.stdout.strip()) as opened:
        names = opened.getnames()
    assert {"ranker/1/saved_model.pb", "scorer/1/saved_model.pb"} <= set(names)

    found = synthesise(text + '[models.scorer]\nsaved_model = "model"\n')
    assert container(found)["Environment"]["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"] == "ranker"
