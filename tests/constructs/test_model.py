"""AWS::SageMaker::Model, its role, its image and its instance type."""

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from infra.recording import FOLDER
from tests.conftest import VALID, Environment
from tests.constructs.conftest import Synthesise, Synthesised, listed, stack_of, with_keys

CONFIG = "AWS::SageMaker::EndpointConfig"
ACKNOWLEDGE = '[acknowledge]\ninstance-retired = "moves to g4dn next quarter"\n'
UNSTATED = {'tensorflow = "2.20"\n': ""}


def test_instance_type_and_version_decide_the_image_and_the_ami(synthesise: Synthesise) -> None:
    gpu, old = {"ml.c5.xlarge": "ml.g4dn.xlarge"}, {"ml.c5.xlarge": "ml.p2.xlarge"}
    for found, image, ami in [
        (synthesise(), "2.20-cpu-py312", None),
        (synthesise(**gpu, **UNSTATED), "2.20-gpu-py312", "al2-ami-sagemaker-inference-gpu-3-1"),
        (synthesise(VALID + ACKNOWLEDGE, **old, **UNSTATED), "2.10-gpu", None),
    ]:
        (variant,) = found.one(CONFIG)["ProductionVariants"]
        address = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"]
        assert (address.split(":")[-1], variant.get("InferenceAmiVersion")) == (image, ami)


def test_what_can_only_be_replaced_has_no_fixed_name(synthesise: Synthesise) -> None:
    model = synthesise().one("AWS::SageMaker::Model")
    assert "ModelName" not in model
    assert "EndpointConfigName" not in synthesise().one(CONFIG)
    assert model["PrimaryContainer"]["ModelDataUrl"].endswith(".tar.gz")


def test_a_variant_has_the_files_variables_volume_key_and_timeouts(synthesise: Synthesise) -> None:
    text = with_keys("endpoint", 'volume_kms_key = "alias/serving"')
    found = synthesise(
        with_keys("model", "network_isolation = true", text)
        + "volume_gb = 100\ndownload_timeout_seconds = 900\nstartup_timeout_seconds = 901\n"
        + 'container = { tfs_processes = 4 }\nenvironment = { TABLE = "users" }\n'
    )
    model, config = found.one("AWS::SageMaker::Model"), found.one(CONFIG)
    assert model["PrimaryContainer"]["Environment"] == {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "4",
        # Chosen for four processes on four vCPUs, without code.
        "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "1",
        "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "1",
        "TABLE": "users",
    }
    assert (model["EnableNetworkIsolation"], config["KmsKeyId"]) == (True, "alias/serving")
    stated = {
        "VolumeSizeInGB": 100,
        "ModelDataDownloadTimeoutInSeconds": 900,
        "ContainerStartupHealthCheckTimeoutInSeconds": 901,
    }
    assert stated.items() <= config["ProductionVariants"][0].items()

    text = PINNED.replace('.gz"', '.gz", size_gib = 10').replace("ml.c5.xlarge", "ml.m5.4xlarge")
    (variant,) = synthesise(text).one(CONFIG)["ProductionVariants"]
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 420


OWN = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/team/serving:v3"


def test_an_image_of_ones_own_is_pulled_and_served_from_its_address(synthesise: Synthesise) -> None:
    found = synthesise(with_keys("model", f'image = "{OWN}"'))
    assert found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"] == OWN
    repository = "arn:aws:ecr:eu-west-1:111111111111:repository/team/serving"
    assert statements(found)["ecr:BatchGetImage"] == repository


def statements(found: Synthesised) -> dict[str, str]:
    policy = found.one("AWS::IAM::Policy")
    return {
        action: ", ".join(listed(statement["Resource"]))
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
    }


def test_the_role_reads_its_archive_alone_and_precedes_the_model(synthesise: Synthesise) -> None:
    found = synthesise()
    url = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["ModelDataUrl"]
    assert statements(found)["s3:GetObject"] == "arn:aws:s3:::" + url.removeprefix("s3://")
    assert "ManagedPolicyArns" not in found.one("AWS::IAM::Role")
    (model,) = found.ids("AWS::SageMaker::Model")
    (policy,) = found.ids("AWS::IAM::Policy")
    assert policy in found.template["Resources"][model]["DependsOn"]


HASH = "a" * 64
PINNED = VALID.replace(
    'saved_model = "model"',
    f'artifact = {{ uri = "s3://models/run-17/model.tar.gz", sha256 = "{HASH}" }}',
)


def test_an_artifact_is_read_where_it_lies_and_no_other_object(synthesise: Synthesise) -> None:
    assert container(synthesise(PINNED))["ModelDataUrl"] == "s3://models/run-17/model.tar.gz"
    resource = statements(synthesise(PINNED))["s3:GetObject"]
    assert resource == "arn:aws:s3:::models/run-17/model.tar.gz"


def test_another_hash_makes_another_model_and_policy(synthesise: Synthesise) -> None:
    before, after = synthesise(PINNED), synthesise(PINNED.replace(HASH, "b" * 64))
    assert before.one("AWS::SageMaker::Model") != after.one("AWS::SageMaker::Model")
    # The old fleet reads its own archive until the update is through.
    assert not {*before.ids("AWS::IAM::Policy")} & {*after.ids("AWS::IAM::Policy")}


UNPACKED = with_keys("model", 'compression = "none"')
MULTI = (
    VALID.replace('saved_model = "model"', 'multi_model = ["one", "two"]')
    + '[models.one]\nsaved_model = "model"\n[models.two]\nsaved_model = "model"\n'
)


def container(found: Synthesised) -> dict[str, Any]:
    return dict(found.one("AWS::SageMaker::Model")["PrimaryContainer"])


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
    return Synthesised.of(stack), made


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
def test_models_in_one_archive_are_in_it_and_the_first_answers(environment: Environment) -> None:
    text = with_keys("model", 'also_serves = ["scorer"]')
    found, commands = assets(environment, text + '[models.scorer]\nsaved_model = "model"\n')
    (command,) = commands.values()
    packed = {"ranker/1/saved_model.pb", "scorer/1/saved_model.pb"}
    assert packed <= names_in_archive(command)
    assert container(found)["Environment"]["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"] == "ranker"
    assert listed_prefixes(found) == []
