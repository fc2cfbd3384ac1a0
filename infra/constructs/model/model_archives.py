"""An archive for each model under one prefix, for the container's multi-model mode."""

from collections.abc import Mapping
from pathlib import Path

from constructs import Construct

from infra.constructs.model.published_prefix import PublishedPrefix
from infra.packing import together
from model_packaging.inputs import ArchiveInputs
from model_packaging.manifest import key
from model_packaging.publishing import command


class ModelArchives(Construct):
    """NAME.tar.gz for each; a request names one of them as its TargetModel.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/create-multi-model-endpoint.html
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        inputs: Mapping[str, ArchiveInputs],
        archives: Path,
    ) -> None:
        """`archives` as for `ModelArchive`. Raises `Refusal`."""
        super().__init__(scope, construct_id)
        keys = {name: key(one, cache=archives.parent) for name, one in sorted(inputs.items())}
        self.fingerprint = together(keys)
        published = PublishedPrefix(
            self,
            "Prefix",
            fingerprint=self.fingerprint,
            commands={
                f"{name}.tar.gz": command(inputs[name], expected_key=digest, archives=archives)
                for name, digest in keys.items()
            },
            of="several models",
        )
        self.data = {"mode": "MultiModel", "model_data_url": published.url}
        self.url = published.url
        self.objects = published.objects
        self.listed = published.listed
        self.variables: dict[str, str] = {}
