"""AWS::SageMaker::Model, its role, its image and its instance type."""

from collections.abc import Callable

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
ACKNOWLEDGE = '[acknowledge]\ninstance-retired = "moves to g4dn next quarter"\n'
UNSTATED = {'tensorflow = "2.20"\n': ""}


def image_and_ami(found: Synthesised) -> tuple[str, str | None]:
    image = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"]
    config = found.one("AWS::SageMaker::EndpointConfig")
    return image.split(":")[-1], config["ProductionVariants"][0].get("InferenceAmiVersion")


def test_instance_type_and_version_decide_the_image_and_the_ami(synthesise: Synthesise) -> None:
    for unstated in [{}, UNSTATED]:
        assert image_and_ami(synthesise(**unstated)) == ("2.20-cpu-py312", None)
        found = synthesise(**{"ml.c5.xlarge": "ml.g4dn.xlarge"}, **unstated)
        assert image_and_ami(found) == ("2.20-gpu-py312", "al2-ami-sagemaker-inference-gpu-3-1")
    for stated in [UNSTATED, {'"2.20"': '"2.10"'}]:
        found = synthesise(VALID + ACKNOWLEDGE, **{"ml.c5.xlarge": "ml.p2.xlarge"}, **stated)
        assert image_and_ami(found) == ("2.10-gpu", None)
    found = synthesise(**{"ml.c5.xlarge": "ml.g5.xlarge", '"2.20"': '"2.18"'})
    assert image_and_ami(found) == ("2.18-gpu", "al2-ami-sagemaker-inference-gpu-3-1")


def test_what_can_only_be_replaced_has_no_fixed_name(synthesise: Synthesise) -> None:
    for kind, name in [
        ("AWS::SageMaker::Model", "ModelName"),
        ("AWS::SageMaker::EndpointConfig", "EndpointConfigName"),
    ]:
        assert name not in synthesise().one(kind)
    url = synthesise().one("AWS::SageMaker::Model")["PrimaryContainer"]["ModelDataUrl"]
    assert url.endswith(".tar.gz")


def test_variables_come_from_typed_settings_and_the_file(synthesise: Synthesise) -> None:
    found = synthesise(VALID + "container = { tfs_processes = 4 }\n")
    assert found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Environment"] == {
        "SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker",
        "SAGEMAKER_TFS_INSTANCE_COUNT": "4",
        # Chosen for four processes on four vCPUs, without code.
        "SAGEMAKER_TFS_INTER_OP_PARALLELISM": "1",
        "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": "1",
    }

    found = synthesise(VALID + 'environment = { TABLE = "users" }\n')
    environment = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
    assert (environment["TABLE"], environment["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"]) == (
        "users",
        "ranker",
    )


OWN = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/team/serving:v3"


def test_an_image_of_ones_own_is_pulled_and_served_from_its_address(synthesise: Synthesise) -> None:
    text = VALID.replace('saved_model = "model"', f'saved_model = "model"\nimage = "{OWN}"')
    assert synthesise(text).one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"] == OWN
    assert statements(synthesise(text))["ecr:BatchGetImage"] == (
        "arn:aws:ecr:eu-west-1:111111111111:repository/team/serving"
    )


def test_isolation_volumes_and_timeouts_are_the_files(synthesise: Synthesise) -> None:
    text = VALID.replace('saved_model = "model"', 'saved_model = "model"\nnetwork_isolation = true')
    assert synthesise(text).one("AWS::SageMaker::Model")["EnableNetworkIsolation"] is True
    for line, key, value in [
        ("volume_gb = 100", "VolumeSizeInGB", 100),
        ("download_timeout_seconds = 900", "ModelDataDownloadTimeoutInSeconds", 900),
        ("startup_timeout_seconds = 900", "ContainerStartupHealthCheckTimeoutInSeconds", 900),
    ]:
        config = synthesise(f"{VALID}{line}\n").one("AWS::SageMaker::EndpointConfig")
        assert config["ProductionVariants"][0][key] == value
    text = VALID.replace('name = "ranker"', 'name = "ranker"\nvolume_kms_key = "alias/serving"')
    assert synthesise(text).one("AWS::SageMaker::EndpointConfig")["KmsKeyId"] == "alias/serving"

    text = PINNED.replace('.gz"', '.gz", size_gib = 10').replace("ml.c5.xlarge", "ml.m5.4xlarge")
    variant = synthesise(text).one("AWS::SageMaker::EndpointConfig")["ProductionVariants"][0]
    assert variant["ModelDataDownloadTimeoutInSeconds"] == 420


def statements(found: Synthesised) -> dict[str, object]:
    policy = found.one("AWS::IAM::Policy")
    return {
        action: statement["Resource"]
        for statement in policy["PolicyDocument"]["Statement"]
        for action in (
            [statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"]
        )
    }


def test_the_role_has_exactly_what_a_container_needs(synthesise: Synthesise) -> None:
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

    found = synthesise()
    url = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["ModelDataUrl"]
    assert statements(found)["s3:GetObject"] == "arn:aws:s3:::" + url.removeprefix("s3://")

    assert "ManagedPolicyArns" not in synthesise().one("AWS::IAM::Role")

    found = synthesise()
    (model,) = found.ids("AWS::SageMaker::Model")
    (policy,) = found.ids("AWS::IAM::Policy")
    assert policy in found.template["Resources"][model]["DependsOn"]
    found = synthesise(VALID + '[rollout]\nstrategy = "canary"\n')
    assert statements(found)["cloudwatch:DescribeAlarms"] == (
        "arn:aws:cloudwatch:eu-west-1:111111111111:alarm:ranker-rollback-*"
    )


HASH = "a" * 64
PINNED = VALID.replace(
    'saved_model = "model"',
    f'artifact = {{ uri = "s3://models/run-17/model.tar.gz", sha256 = "{HASH}" }}',
)


def test_an_artifact_is_read_where_it_lies_and_no_other_object(synthesise: Synthesise) -> None:
    container = synthesise(PINNED).one("AWS::SageMaker::Model")["PrimaryContainer"]
    assert container["ModelDataUrl"] == "s3://models/run-17/model.tar.gz"
    resource = statements(synthesise(PINNED))["s3:GetObject"]
    assert resource == "arn:aws:s3:::models/run-17/model.tar.gz"


def test_another_hash_makes_another_model_and_policy(synthesise: Synthesise) -> None:
    before = synthesise(PINNED).one("AWS::SageMaker::Model")
    assert synthesise(PINNED.replace(HASH, "b" * 64)).one("AWS::SageMaker::Model") != before

    # The old fleet reads its own archive until the update is through.
    before = synthesise(PINNED).ids("AWS::IAM::Policy")
    after = synthesise(PINNED.replace(HASH, "b" * 64)).ids("AWS::IAM::Policy")
    assert set(before) & set(after) == set()
