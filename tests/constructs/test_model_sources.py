"""How a model's bytes are published: files under a prefix, archives under a prefix, one archive."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra.recording import FOLDER
from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesised, stack_of

UNPACKED = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncompression = "none"')
MULTI = (
    VALID.replace('saved_model = "model"', 'multi_model = ["one", "two"]')
    + '[models.one]\nsaved_model = "model"\n[models.two]\nsaved_model = "model"\n'
)


def container(found: Synthesised) -> dict[str, Any]:
    said: dict[str, Any] = found.one("AWS::SageMaker::Model")["PrimaryContainer"]
    return said


def assets(environment: Environment, text: str) -> tuple[Synthesised, dict[str, list[str]]]:
    """The template; and object keys, and the command that makes each object; not of the record."""
    stack = stack_of(environment, text)
    assembly = stack.node.scope.synth()  # type: ignore[union-attr]
    (file,) = Path(assembly.directory).glob("*.assets.json")
    made = {}
    for one in json.loads(file.read_text())["files"].values():
        (destination,) = one["destinations"].values()
        key = destination["objectKey"]
        if "executable" in one["source"] and not key.startswith(FOLDER):
            made[key] = one["source"]["executable"]
    return Synthesised(dict(Template.from_stack(stack).to_json())), made


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=False, capture_output=True, text=True)


def names_in_archive(command: list[str]) -> set[str]:
    with tarfile.open(run(command).stdout.strip()) as opened:
        return set(opened.getnames())


def listed_prefixes(found: Synthesised) -> list[Any]:
    """What each statement that lists a bucket is limited to."""
    return [
        statement["Condition"]["StringLike"]["s3:prefix"]
        for policy in found.all("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "s3:ListBucket"
    ]


@pytest.mark.long
def test_without_compression_every_file_is_uploaded_under_a_prefix_that_the_role_lists(
    environment: Environment, project: Path
) -> None:
    found, commands = assets(environment, UNPACKED)
    source = container(found)["ModelDataSource"]["S3DataSource"]
    assert (source["CompressionType"], source["S3DataType"]) == ("None", "S3Prefix")
    assert json.dumps(source["S3Uri"]).rstrip('"}]').endswith("/")
    (allowed,) = listed_prefixes(found)
    assert json.dumps(allowed).count("*") == 1
    assert len(json.dumps(allowed).split("/")[-2]) >= 64

    files = [path for path in (project / "model").rglob("*") if path.is_file()]
    assert {key.partition("/")[2] for key in commands} == {
        f"ranker/{path.relative_to(project / 'model')}" for path in files
    }
    assert {command[0] for command in commands.values()} == {sys.executable}
    graph = project / "model" / "1" / "saved_model.pb"
    command = next(one for key, one in commands.items() if key.endswith("saved_model.pb"))
    assert run(command).stdout.strip() == str(graph)

    # Another content has another prefix, and is not uploaded to the old one.
    graph.write_bytes(graph.read_bytes().replace(b"serving_default", b"serving_special"))
    ran = run(command)
    problem = f"{graph}: changed between synth and publishing; deploy again\n"
    assert (ran.returncode, ran.stderr) == (1, problem)
    _, after = assets(environment, UNPACKED)
    assert not {key.split("/")[0] for key in commands} & {key.split("/")[0] for key in after}


@pytest.mark.long
def test_several_models_run_in_multi_model_mode_from_archives_under_one_prefix(
    environment: Environment,
) -> None:
    found, commands = assets(environment, MULTI)
    assert container(found)["Mode"] == "MultiModel"
    assert "SAGEMAKER_TFS_DEFAULT_MODEL_NAME" not in container(found)["Environment"]
    assert len(listed_prefixes(found)) == 1
    one, two = sorted(commands)
    assert (one.partition("/")[2], two.partition("/")[2]) == ("one.tar.gz", "two.tar.gz")
    assert "1/saved_model.pb" in names_in_archive(commands[one])


@pytest.mark.long
def test_models_in_one_archive_are_all_in_it_and_the_first_answers(
    environment: Environment,
) -> None:
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nalso_serves = ["scorer"]')
    found, commands = assets(environment, text + '[models.scorer]\nsaved_model = "model"\n')
    (command,) = commands.values()
    packed = {"ranker/1/saved_model.pb", "scorer/1/saved_model.pb"}
    assert packed <= names_in_archive(command)
    assert container(found)["Environment"]["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"] == "ranker"
    assert listed_prefixes(found) == []
