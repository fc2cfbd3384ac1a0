"""model.tar.gz as a CDK asset that is packed when it is published, and only then."""

from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.model.archive import Prefix
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key
from model_packaging.publishing import command


class ModelArchive(Construct):
    """The archive of one model, under a key that changes when any of its bytes would."""

    def __init__(
        self, scope: Construct, construct_id: str, *, inputs: ArchiveInputs, archives: Path
    ) -> None:
        """`archives`: the folder that packed archives are kept in, inside the project's
        folder for what can be made again, where hashes are kept too. Raises `Refusal`."""
        super().__init__(scope, construct_id)
        self.fingerprint = key(inputs, cache=archives.parent)
        self.variables: dict[str, str] = {}
        stack = cdk.Stack.of(self)
        # Straight to the synthesizer and not through aws_s3_assets.Asset: that one would
        # name the object <hash>.gz, and SageMaker documents .tar.gz.
        asset = stack.synthesizer.add_file_asset(
            source_hash=f"{self.fingerprint}.tar.gz",
            executable=command(inputs, expected_key=self.fingerprint, archives=archives),
            display_name=f"model.tar.gz of {inputs.name}",
        )
        self.url = asset.s3_object_url
        self.data = {"model_data_url": self.url}
        self.objects = stack.format_arn(
            service="s3",
            region="",
            account="",
            resource=asset.bucket_name,
            resource_name=asset.object_key,
        )
        self.listed: Prefix | None = None
