"""AWS::SageMaker::Model, its role, its image and its instance type."""

from collections.abc import Callable

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
ACKNOWLEDGE = '[acknowledge]\ninstance-retired = "moves to g4dn next quarter"\n'
UNSTATED = {'tensorflow = "2.20"\n': ""}


def image_and_ami(found: Synthesised) -> tuple[str, str | None]:
    image = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"]
    config = found.one("AWS::SageMaker::EndpointConfig")
    return image.split(":")[-1], config["ProductionVariants"][0].get("InferenceAmiVersion")


@pytest.mark.parametrize("unstated", [{}, UNSTATED])
def test_c5_gets_the_cpu_image_and_no_ami(synthesise: Synthesise, unstated: dict[str, str]) -> None:
    assert image_and_ami(synthesise(**unstated)) == ("2.20-cpu-py312", None)


@pytest.mark.parametrize("unstated", [{}, UNSTATED])
def test_g4dn_gets_the_gpu_image_and_an_ami_whose_driver_carries_its_cuda(
    synthesise: Synthesise, unstated: dict[str, str]
) -> None:
    found = synthesise(**{"ml.c5.xlarge": "ml.g4dn.xlarge"}, **unstated)
    assert image_and_ami(found) == ("2.20-gpu-py312", "al2-ami-sagemaker-inference-gpu-3-1")


@pytest.mark.parametrize("stated", [UNSTATED, {'"2.20"': '"2.10"'}])
def test_acknowledged_p2_gets_a_cuda_11_image_and_no_ami(
    synthesise: Synthesise, stated: dict[str, str]
) -> None:
    found = synthesise(VALID + ACKNOWLEDGE, **{"ml.c5.xlarge": "ml.p2.xlarge"}, **stated)
    assert image_and_ami(found) == ("2.10-gpu", None)


def test_the_archive_is_published_under_a_key_that_ends_in_tar_gz(synthesise: Synthesise) -> None:
    url = synthesise().one("AWS::SageMaker::Model")["PrimaryContainer"]["ModelDataUrl"]
    assert url.endswith(".tar.gz")


def test_the_containers_variables_come_from_the_typed_settings(synthesise: Synthesise) -> None:
    found = synthesise(VALID + "container = { tfs_processes = 4 }\n")
    assert found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Environment"] == {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "4",
        # Chosen for four processes on four vCPUs, without code.
        "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "1",
        "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "1",
    }


def test_variables_of_ones_own_stand_beside_the_containers(synthesise: Synthesise) -> None:
    found = synthesise(VALID + 'environment = { TABLE = "users" }\n')
    environment = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
    assert (environment["TABLE"], environment["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"]) == (
        "users",
        "ranker",
    )


OWN = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/team/serving:v3"


def test_an_image_of_ones_own_is_served_from_its_address(synthesise: Synthesise) -> None:
    text = VALID.replace('saved_model = "model"', f'saved_model = "model"\nimage = "{OWN}"')
    assert synthesise(text).one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"] == OWN


def test_the_role_pulls_the_image_of_ones_own(synthesise: Synthesise) -> None:
    text = VALID.replace('saved_model = "model"', f'saved_model = "model"\nimage = "{OWN}"')
    assert statements(synthesise(text))["ecr:BatchGetImage"] == (
        "arn:aws:ecr:eu-west-1:111111111111:repository/team/serving"
    )


def test_an_isolated_model_can_call_nobody(synthesise: Synthesise) -> None:
    text = VALID.replace('saved_model = "model"', 'saved_model = "model"\nnetwork_isolation = true')
    assert synthesise(text).one("AWS::SageMaker::Model")["EnableNetworkIsolation"] is True


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("volume_gb = 100", "VolumeSizeInGB", 100),
        ("download_timeout_seconds = 900", "ModelDataDownloadTimeoutInSeconds", 900),
        ("startup_timeout_seconds = 900", "ContainerStartupHealthCheckTimeoutInSeconds", 900),
    ],
)
def test_a_variants_machine_is_as_the_file_says(
    synthesise: Synthesise, line: str, key: str, value: int
) -> None:
    config = synthesise(f"{VALID}{line}\n").one("AWS::SageMaker::EndpointConfig")
    assert config["ProductionVariants"][0][key] == value


def test_the_volumes_are_encrypted_with_the_files_key(synthesise: Synthesise) -> None:
    text = VALID.replace('name = "ranker"', 'name = "ranker"\nvolume_kms_key = "alias/serving"')
    assert synthesise(text).one("AWS::SageMaker::EndpointConfig")["KmsKeyId"] == "alias/serving"


def test_a_large_model_gets_the_time_that_it_needs(synthesise: Synthesise) -> None:
    text = PINNED.replace('.gz"', '.gz", size_gib = 10').replace("ml.c5.xlarge", "ml.m5.4xlarge")
    variant = synthesise(text).one("AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 420


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("AWS::SageMaker::Model", "ModelName"),
        ("AWS::SageMaker::EndpointConfig", "EndpointConfigName"),
    ],
)
def test_what_can_only_be_replaced_has_no_fixed_name(
    synthesise: Synthesise, kind: str, name: str
) -> None:
    assert name not in synthesise().one(kind)


def statements(found: Synthesised) -> dict[str, object]:
    policy = found.one("AWS::IAM::Policy")
    return {
        action: statement["Resource"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }


def test_the_roles_policy_exists_before_the_model_reads_its_archive(
    synthesise: Synthesise,
) -> None:
    found = synthesise()
    (model,) = found.ids("AWS::SageMaker::Model")
    (policy,) = found.ids("AWS::IAM::Policy")
    assert policy in found.template["Resources"][model]["DependsOn"]


def test_the_role_has_exactly_the_actions_that_a_container_needs(synthesise: Synthesise) -> None:
    assert sorted(statements(synthesise())) == [
        "cloudwatch:PutMetricData",
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetAuthorizationToken",
        "ecr:GetDownloadUrlForLayer",
        "logs:CreateLogStream",
        "logs:DescribeLogStreams",
        "logs:PutLogEvents",
        "s3:GetObject",
    ]


def test_the_role_may_read_its_rollback_alarms_where_there_are_any(synthesise: Synthesise) -> None:
    found = synthesise(VALID + '[rollout]\nstrategy = "canary"\n')
    assert statements(found)["cloudwatch:DescribeAlarms"] == (
        "arn:aws:cloudwatch:eu-west-1:111111111111:alarm:ranker-rollback-*"
    )


def test_the_role_reads_its_own_archive_and_no_other(synthesise: Synthesise) -> None:
    found = synthesise()
    url = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["ModelDataUrl"]
    assert statements(found)["s3:GetObject"] == "arn:aws:s3:::" + url.removeprefix("s3://")


def test_the_role_has_no_managed_policy(synthesise: Synthesise) -> None:
    assert "ManagedPolicyArns" not in synthesise().one("AWS::IAM::Role")


HASH = "a" * 64
PINNED = VALID.replace(
    'saved_model = "model"',
    f'artifact = {{ uri = "s3://models/run-17/model.tar.gz", sha256 = "{HASH}" }}',
)


def test_an_artifact_is_read_where_it_lies(synthesise: Synthesise) -> None:
    container = synthesise(PINNED).one("AWS::SageMaker::Model")["PrimaryContainer"]
    assert container["ModelDataUrl"] == "s3://models/run-17/model.tar.gz"


def test_another_hash_under_the_same_key_makes_another_model(synthesise: Synthesise) -> None:
    before = synthesise(PINNED).one("AWS::SageMaker::Model")
    assert synthesise(PINNED.replace(HASH, "b" * 64)).one("AWS::SageMaker::Model") != before


def test_the_role_reads_the_artifact_and_no_other_object(synthesise: Synthesise) -> None:
    resource = statements(synthesise(PINNED))["s3:GetObject"]
    assert resource == "arn:aws:s3:::models/run-17/model.tar.gz"


def test_a_gpu_image_whose_cuda_is_not_documented_gets_the_newest_driver(
    synthesise: Synthesise,
) -> None:
    found = synthesise(**{"ml.c5.xlarge": "ml.g5.xlarge", '"2.20"': '"2.18"'})
    assert image_and_ami(found) == ("2.18-gpu", "al2-ami-sagemaker-inference-gpu-3-1")


def test_another_archive_gets_a_policy_beside_the_old_one(synthesise: Synthesise) -> None:
    """The old fleet reads its own archive until the update is through."""
    before = synthesise(PINNED).ids("AWS::IAM::Policy")
    after = synthesise(PINNED.replace(HASH, "b" * 64)).ids("AWS::IAM::Policy")
    assert set(before) & set(after) == set()
