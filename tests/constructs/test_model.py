"""AWS::SageMaker::Model, its role, its image and its instance type."""

from collections.abc import Callable

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised, listed

Synthesise = Callable[..., Synthesised]
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
    text = VALID.replace('name = "ranker"', 'name = "ranker"\nvolume_kms_key = "alias/serving"')
    found = synthesise(
        text.replace('saved_model = "model"', 'saved_model = "model"\nnetwork_isolation = true')
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
    text = VALID.replace('saved_model = "model"', f'saved_model = "model"\nimage = "{OWN}"')
    assert synthesise(text).one("AWS::SageMaker::Model")["PrimaryContainer"]["Image"] == OWN
    assert statements(synthesise(text))["ecr:BatchGetImage"] == (
        "arn:aws:ecr:eu-west-1:111111111111:repository/team/serving"
    )


def statements(found: Synthesised) -> dict[str, str]:
    policy = found.one("AWS::IAM::Policy")
    return {
        action: ", ".join(listed(statement["Resource"]))
        for statement in policy["PolicyDocument"]["Statement"]
        for action in listed(statement["Action"])
    }


def test_the_role_reads_its_archive_alone_and_is_ready_before_the_model(
    synthesise: Synthesise,
) -> None:
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
    container = synthesise(PINNED).one("AWS::SageMaker::Model")["PrimaryContainer"]
    assert container["ModelDataUrl"] == "s3://models/run-17/model.tar.gz"
    resource = statements(synthesise(PINNED))["s3:GetObject"]
    assert resource == "arn:aws:s3:::models/run-17/model.tar.gz"


def test_another_hash_makes_another_model_and_policy(synthesise: Synthesise) -> None:
    before, after = synthesise(PINNED), synthesise(PINNED.replace(HASH, "b" * 64))
    assert before.one("AWS::SageMaker::Model") != after.one("AWS::SageMaker::Model")
    # The old fleet reads its own archive until the update is through.
    assert not {*before.ids("AWS::IAM::Policy")} & {*after.ids("AWS::IAM::Policy")}
