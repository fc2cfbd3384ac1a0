"""Several assets under one prefix, which carries the hash of them all."""

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.model.archive import Prefix


class PublishedPrefix(Construct):
    """s3://assets/FINGERPRINT/NAME for each name; another content is another prefix.

    So that an old fleet, and a way back, find what they were started with.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        fingerprint: str,
        commands: Mapping[str, Sequence[str]],
        of: str,
    ) -> None:
        """`commands`: what makes the file of each name, when it is published."""
        super().__init__(scope, construct_id)
        stack = cdk.Stack.of(self)
        for name, command in commands.items():
            asset = stack.synthesizer.add_file_asset(
                source_hash=f"{fingerprint}/{name}",
                executable=list(command),
                display_name=f"{name} of {of}",
            )
        prefix = f"{asset.object_key.removesuffix(name)}"
        self.url = f"s3://{asset.bucket_name}/{prefix}"
        bucket_arn = stack.format_arn(
            service="s3", region="", account="", resource=asset.bucket_name
        )
        self.objects = f"{bucket_arn}/{prefix}*"
        self.listed = Prefix(bucket_arn=bucket_arn, name=prefix)
