"""A model as SageMaker may take it without unpacking: each file under a prefix."""

from pathlib import Path

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.model.published_prefix import PublishedPrefix
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key_tree_and_hashes
from model_packaging.unpacked_file import command


class UnpackedFiles(Construct):
    """The files that an archive would hold, uploaded as they are. Empty folders are not there.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/large-model-inference-uncompressed.html
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, inputs: ArchiveInputs, made: Path
    ) -> None:
        """`made`: the project's folder for what can be made again. Raises `Refusal`."""
        super().__init__(scope, construct_id)
        self.fingerprint, tree, hashes = key_tree_and_hashes(inputs, cache=made)
        published = PublishedPrefix(
            self,
            "Prefix",
            fingerprint=self.fingerprint,
            commands={one.name: command(one.path, sha256=hashes[one.name]) for one in tree.files},
            of=inputs.name,
        )
        source = sagemaker.CfnModel.S3DataSourceProperty(
            compression_type="None", s3_data_type="S3Prefix", s3_uri=published.url
        )
        self.data = {
            "model_data_source": sagemaker.CfnModel.ModelDataSourceProperty(s3_data_source=source)
        }
        self.url = published.url
        self.objects = published.objects
        self.listed = published.listed
        self.variables: dict[str, str] = {}
