"""Machines that answer with one model."""

from pathlib import Path

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.model_archive import ModelArchive
from infra.constructs.pinned_archive import PinnedArchive
from infra.constructs.rollback_alarms import name_prefix
from infra.constructs.served_model import Archive, ServedModel
from infra.parameters.model import Model
from infra.parameters.served_model import served
from infra.parameters.variant import Variant
from infra.policy.hosting import hosting
from model_packaging.dependencies import vendored
from model_packaging.inputs import ArchiveInputs
from model_packaging.places import ARCHIVES, UNPACKED, WHEELS


class ServedVariant(Construct):
    """A variant of the file, with the SageMaker model that its machines run."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        variant: Variant,
        model: Model,
        endpoint_name: str,
        region: str,
        log_group_arn: str,
        may_roll_back: bool,
        root: Path,
    ) -> None:
        """`may_roll_back`: updates are watched by alarms, which the role must then read."""
        super().__init__(scope, construct_id)
        self.name = name
        self.scaled = variant.scaling is not None
        self._variant = variant
        self._hosting = hosting(
            instance_type=variant.instance_type,
            tensorflow=model.tensorflow,
            region=region,
            container=variant.container,
            default_model=variant.model,
            served=served(model, root),
            own_image=model.image,
            own_variables=variant.variables,
            inference_ami=variant.inference_ami,
        )
        self._model = ServedModel(
            self,
            "Model",
            archive=self._archive(model, root),
            image=self._hosting.image,
            variables=self._hosting.variables,
            log_group_arn=log_group_arn,
            rollback_alarm_prefix=name_prefix(endpoint_name) if may_roll_back else None,
            network_isolation=model.network_isolation,
        )

    def _archive(self, model: Model, root: Path) -> Archive:
        if model.artifact is not None:
            return PinnedArchive(self, "Archive", artifact=model.artifact)
        assert model.saved_model is not None  # preflight: one of the two
        code = root / model.code if model.code else None
        lib = None
        if code is not None and model.install == "vendored":
            lib = vendored(code, wheels=root / WHEELS, unpacked=root / UNPACKED)
        inputs = ArchiveInputs(
            model=self._variant.model, saved_model=root / model.saved_model, code=code, lib=lib
        )
        return ModelArchive(self, "Archive", inputs=inputs, archives=root / ARCHIVES)

    def production_variant(self) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        """What the endpoint configuration says of it."""
        return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name=self.name,
            model_name=self._model.name,
            instance_type=self._variant.instance_type,
            initial_instance_count=self._variant.min_instances,
            initial_variant_weight=self._variant.weight,
            inference_ami_version=self._hosting.inference_ami,
            volume_size_in_gb=self._variant.volume_gb,
            model_data_download_timeout_in_seconds=self._download_timeout_seconds,
            container_startup_health_check_timeout_in_seconds=self._startup_timeout_seconds,
        )

    @property
    def _download_timeout_seconds(self) -> int | None:
        return self._variant.download_timeout_seconds or self._hosting.download_timeout_seconds

    @property
    def _startup_timeout_seconds(self) -> int | None:
        return self._variant.startup_timeout_seconds or self._hosting.startup_timeout_seconds

    @property
    def decides(self) -> list[object]:
        """Everything that, changed, replaces the endpoint configuration."""
        variant = self._variant
        return [
            self.name,
            self._model.fingerprint,
            variant.instance_type,
            variant.min_instances,
            variant.weight,
            self._hosting.inference_ami,
            variant.volume_gb,
            self._download_timeout_seconds,
            self._startup_timeout_seconds,
        ]
