"""A model of the registry, and one of another account under customer keys: deployed and verified."""

import hashlib

import pytest

from infra.parameters.loading import ValidFile
from servable.pin.command import PinError, read_approved_package
from servable.verify.difference import Report
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_preset import IMAGE
from tests.servable_local.aws.verified_kind import VerifiedKind, written

BODY = b"an archive that was packed elsewhere"
CONTAINER = {"Image": IMAGE, "ModelDataUrl": ""}


def real(text: str) -> str:
    """The file with the hash of what is there; the first version of a group is 1."""
    return text.replace("a" * 64, hashlib.sha256(BODY).hexdigest()).replace("ranker/7", "ranker/1")


class VerifiedArtifact(VerifiedKind):
    """What another one has packed, and registered, is there before the deployment."""

    def _publish(self) -> None:
        assert isinstance(self.loaded, ValidFile)
        artifact = self.loaded.environment.models["ranker"].artifact
        assert artifact is not None
        self.uri = artifact.uri.replace("111111111111", self.account.number)
        bucket, _, key = self.uri.removeprefix("s3://").partition("/")
        self.client("s3").create_bucket(Bucket=bucket)
        self.client("s3").put_object(Bucket=bucket, Key=key, Body=BODY)
        sagemaker = self.client("sagemaker")
        sagemaker.create_model_package_group(ModelPackageGroupName="ranker")
        self.package: str = sagemaker.create_model_package(
            ModelPackageGroupName="ranker",
            ModelApprovalStatus="Approved",
            InferenceSpecification={
                "Containers": [{**CONTAINER, "ModelDataUrl": self.uri}],
                "SupportedContentTypes": ["application/json"],
                "SupportedResponseMIMETypes": ["application/json"],
            },
        )["ModelPackageArn"]

    def judged(self, status: str) -> None:
        self.client("sagemaker").update_model_package(
            ModelPackageArn=self.package, ModelApprovalStatus=status
        )


@pytest.fixture(scope="module", params=["registry", "customer-keys"])
def deployed(
    request: pytest.FixtureRequest,
    embedded: LocalAws,
    launcher: Launcher,
    tmp_path_factory: pytest.TempPathFactory,
) -> VerifiedArtifact:
    folder = tmp_path_factory.mktemp(request.param)
    loaded = written(folder, request.param, ("ranker",), real)
    return VerifiedArtifact(embedded, launcher, loaded)


def kinds(report: Report) -> list[str]:
    return [difference.kind for difference in report.differences]


def test_what_was_deployed_is_verified(deployed: VerifiedArtifact) -> None:
    deployed.judged("Approved")  # the tests run in any order
    assert deployed.report().differences == []

    deployed.judged("Rejected")
    expected = ["model package"] if deployed.endpoint.endswith("registry") else []
    assert kinds(deployed.report()) == expected


def test_pin_resolves_what_is_approved_alone(deployed: VerifiedArtifact) -> None:
    deployed.judged("Approved")
    assert read_approved_package(deployed.client("sagemaker"), deployed.package) == (
        deployed.uri,
        IMAGE,
    )
    with pytest.raises(PinError, match="cannot be read"):
        read_approved_package(deployed.client("sagemaker"), deployed.package + "0")
    for status in ["Rejected", "PendingManualApproval"]:
        deployed.judged(status)
        with pytest.raises(PinError, match=f"ModelApprovalStatus is {status}; allowed: Approved"):
            read_approved_package(deployed.client("sagemaker"), deployed.package)
