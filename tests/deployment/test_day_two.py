"""Verify and history after real deployments: nothing differs, and a rollback works or is refused."""

from pathlib import Path

import pytest

from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.deployment.conftest import Deployment, bootstrapped_copy


@pytest.mark.long
@pytest.mark.timeout(900)
def test_there_and_back_again(tmp_path: Path) -> None:
    """Deploy A, verify, deploy B, go back to A; then without A's archive."""
    with bootstrapped_copy(tmp_path) as made:
        made.deploy()
        ran = made.servable("verify", "local")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        first = made.archive()
        code = made.project / "examples" / "ranker" / "code" / "inference.py"
        code.write_text(code.read_text() + "\n# another\n")
        made.deploy()
        assert made.archive() != first
        file = made.project / "environments" / "local.toml"
        newest = file.read_text()
        assert made.servable("history", "local", "--restore", "1", "--write").returncode == 0
        made.deploy()
        assert made.archive() == first
        ran = made.servable("verify", "local")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        file.write_text(newest)
        made.deploy()
        remove_unreferenced(made)
        ran = made.servable("history", "local", "--restore", "1")
        assert (ran.returncode, "the archive no longer exists" in ran.stderr) == (2, True)


def remove_unreferenced(deployment: Deployment) -> None:
    s3, bucket = deployment.client("s3"), f"cdk-hnb659fds-assets-{ACCOUNT}-{REGION}"
    template = str(deployment.template())
    for one in s3.list_objects_v2(Bucket=bucket)["Contents"]:
        if one["Key"].split(".")[0] not in template:  # as `cdk gc` decides
            s3.delete_object(Bucket=bucket, Key=one["Key"])
