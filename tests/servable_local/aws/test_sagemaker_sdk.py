"""The SageMaker SDK finds the local AWS by the variables of `up`, as docs/local-aws.md says."""

import pytest

from servable_local.aws.local_aws import LocalAws

pytestmark = pytest.mark.long


def test_a_session_with_a_bucket_of_its_own_makes_it_in_the_local_aws(
    embedded: LocalAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in embedded.environment().items():
        monkeypatch.setenv(name, value)
    from sagemaker.core.helper.session_helper import Session

    name = Session(default_bucket="models-of-the-sdk").default_bucket()
    made = [bucket["Name"] for bucket in embedded.client("s3").list_buckets()["Buckets"]]
    assert name in made
