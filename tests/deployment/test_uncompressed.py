"""compression = "none" from the file to a prediction: files under a prefix, encrypted with a key of
one's own that `cdk bootstrap` was given."""

import json
import os
from pathlib import Path

import pytest

from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, ROOT, bootstrap, checkout, run_in

pytestmark = pytest.mark.long
GOLDEN = ROOT / "examples" / "ranker" / "golden"
KEYS = ("compression=none", 'warm_up=["examples/ranker/golden/request-rows.json"]')


def test_every_file_lies_encrypted_under_the_prefix_and_predicts_as_tensorflow(
    tmp_path: Path,
) -> None:
    project = checkout(tmp_path / "project")
    with running() as aws:
        deploy(project, aws)
        s3, iam, sagemaker = (aws.client(service) for service in ("s3", "iam", "sagemaker"))
        (model,) = sagemaker.list_models()["Models"]
        described = sagemaker.describe_model(ModelName=model["ModelName"])
        uri = described["PrimaryContainer"]["ModelDataSource"]["S3DataSource"]["S3Uri"]
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        found = s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
        assert {one["Key"].removeprefix(prefix) for one in found} == {
            "code/inference.py",
            "ranker/1/assets.extra/tf_serving_warmup_requests",
            "ranker/1/fingerprint.pb",
            "ranker/1/saved_model.pb",
            "ranker/1/variables/variables.data-00000-of-00001",
            "ranker/1/variables/variables.index",
        }
        # With a key that the model's role may use.
        keys = {s3.head_object(Bucket=bucket, Key=one["Key"])["SSEKMSKeyId"] for one in found}
        policies = [
            iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"]
            for role in iam.list_roles()["Roles"]
            for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
        ]
        allowed = [
            statement["Resource"]
            for policy in policies
            for statement in policy["Statement"]
            if statement["Action"] == "kms:Decrypt" and statement["Effect"] == "Allow"
        ]
        assert [arn.rpartition("/")[2] for arn in allowed] == sorted(keys)

        answer = aws.client("sagemaker-runtime").invoke_endpoint(
            EndpointName="ranker-local",
            ContentType="application/json",
            Body=(GOLDEN / "request-rows.json").read_bytes(),
        )
        predictions = json.loads(answer["Body"].read())["predictions"]
        wanted = json.loads((GOLDEN / "answer-rows.json").read_text())["predictions"]
        assert predictions == pytest.approx(wanted, rel=1e-5)


def deploy(project: Path, aws: LocalAws) -> None:
    environment = aws.environment_over({**os.environ, "PATH": PATH})
    key = aws.client("kms").create_key()["KeyMetadata"]
    chosen = [part for each in KEYS for part in ("-c", f"local.models.ranker.{each}")]
    chosen += ["-c", f'local.endpoint.archive_kms_keys=["{key["Arn"]}"]']
    # By id: of an ARN the bootstrap's template makes a policy on another key.
    bootstrap(project.parent, "--bootstrap-kms-key-id", key["KeyId"], environment=environment)
    words = ("deploy", "local/*", "--require-approval", "never", *chosen)
    ran = run_in(project, "cdk", *words, environment=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr
