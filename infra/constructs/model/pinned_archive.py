"""An archive that lies in S3 already, held to its hash."""

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.model.archive import Prefix
from infra.parameters.model import Artifact


class PinnedArchive(Construct):
    """Nothing is packed or published: the model reads the object where it is.

    The hash goes into the model's variables. Another hash is then another model, also
    under the same key; CloudFormation alone would see no change and deploy nothing.
    """

    def __init__(self, scope: Construct, construct_id: str, *, artifact: Artifact) -> None:
        super().__init__(scope, construct_id)
        bucket, _, object_key = artifact.uri.removeprefix("s3://").partition("/")
        self.url = artifact.uri
        self.data = {"model_data_url": artifact.uri}
        self.listed: Prefix | None = None
        self.fingerprint = artifact.sha256
        self.variables = {"SERVABLE_ARTIFACT_SHA256": artifact.sha256}
        self.objects = cdk.Stack.of(self).format_arn(
            service="s3", region="", account="", resource=bucket, resource_name=object_key
        )
