"""compression = "none" from the file to a prediction: files under a prefix, encrypted with a key of
one's own that `cdk bootstrap` was given."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, bootstrap, checkout, run_in

pytestmark = pytest.mark.long
GOLDEN = Path(__file__).resolve().parents[2] / "examples" / "ranker" / "golden"
KEYS = ("compression=none", 'warm_up=["examples/ranker/golden/request-rows.json"]')


@pytest.fixture(scope="module")
def aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    project = checkout(tmp_path_factory.mktemp("uncompressed") / "project")
    with running() as aws:
        environment = aws.environment_over({**os.environ, "PATH": PATH})
        key = aws.client("kms").create_key()["KeyMetadata"]
        chosen = [part for key in KEYS for part in ("-c", f"local.models.ranker.{key}")]
        chosen += ["-c", f'local.endpoint.archive_kms_keys=["{key["Arn"]}"]']
        # By id: of an ARN the bootstrap's template makes a policy on another key.
        by_id = ("--bootstrap-kms-key-id", key["KeyId"])
        bootstrap(project.parent, *by_id, environment=environment)
        deploy = ("deploy", "local/*", "--require-approval", "never")
        ran = run_in(project, "cdk", *deploy, *chosen, environment=environment)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        yield aws


def source(aws: LocalAws) -> tuple[str, str]:
    """Bucket and prefix of the deployed model."""
    sagemaker = aws.client("sagemaker")
    (model,) = sagemaker.list_models()["Models"]
    described = sagemaker.describe_model(ModelName=model["ModelName"])
    uri = described["PrimaryContainer"]["ModelDataSource"]["S3DataSource"]["S3Uri"]
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return bucket, prefix


def test_every_file_lies_under_the_prefix_encrypted(aws: LocalAws) -> None:
    bucket, prefix = source(aws)
    found = aws.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
    assert {one["Key"].removeprefix(prefix) for one in found} == {
        "code/inference.py",
        "ranker/1/assets.extra/tf_serving_warmup_requests",
        "ranker/1/fingerprint.pb",
        "ranker/1/saved_model.pb",
        "ranker/1/variables/variables.data-00000-of-00001",
        "ranker/1/variables/variables.index",
    }
    # With a key that the model's role may use.
    s3, iam = aws.client("s3"), aws.client("iam")
    keys = {s3.head_object(Bucket=bucket, Key=one["Key"])["SSEKMSKeyId"] for one in found}
    allowed = [
        statement["Resource"]
        for role in iam.list_roles()["Roles"]
        for policy in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
        for statement in iam.get_role_policy(RoleName=role["RoleName"], PolicyName=policy)[
            "PolicyDocument"
        ]["Statement"]
        if statement["Action"] == "kms:Decrypt" and statement["Effect"] == "Allow"
    ]
    assert [arn.rpartition("/")[2] for arn in allowed] == sorted(keys)


def test_it_predicts_what_tensorflow_predicts(aws: LocalAws) -> None:
    answer = aws.client("sagemaker-runtime").invoke_endpoint(
        EndpointName="ranker-local",
        ContentType="application/json",
        Body=(GOLDEN / "request-rows.json").read_bytes(),
    )
    predictions = json.loads(answer["Body"].read())["predictions"]
    wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
    assert predictions == pytest.approx(wanted, rel=1e-5)
