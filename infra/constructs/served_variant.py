"""Machines that answer with one model."""

from pathlib import Path

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.archive import Archive
from infra.constructs.capture_store import Destination
from infra.constructs.model_archive import ModelArchive
from infra.constructs.model_archives import ModelArchives
from infra.constructs.pinned_archive import PinnedArchive
from infra.constructs.rollback_alarms import name_prefix
from infra.constructs.served_model import ServedModel
from infra.constructs.unpacked_files import UnpackedFiles
from infra.constructs.watched_endpoint import WatchedVariant
from infra.packing import archive_inputs
from infra.parameters.environment import Environment
from infra.parameters.served_model import served
from infra.parameters.variant import Variant
from infra.policy.hosting import hosting
from model_packaging.places import ARCHIVES, MADE


class ServedVariant(Construct):
    """A variant of the file, with the SageMaker model that its machines run."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        variant: Variant,
        environment: Environment,
        endpoint_name: str,
        region: str,
        log_group_arn: str,
        may_roll_back: bool,
        root: Path,
        captured: Destination | None = None,
    ) -> None:
        """`may_roll_back`: updates are watched by alarms, which the role must then read.
        `captured`: where samples go, which the role must then write."""
        super().__init__(scope, construct_id)
        self.name = name
        self.scaled = variant.scaling is not None
        self._variant = variant
        model = environment.models[variant.model]
        self._hosting = hosting(
            instance_type=variant.instance_type,
            tensorflow=model.tensorflow,
            region=region,
            container=variant.container,
            default_model=None if model.multi_model else variant.model,
            served=served(environment.models, variant.model, root),
            own_image=model.image,
            own_variables=variant.variables,
            inference_ami=variant.inference_ami,
        )
        self._served = served(environment.models, variant.model, root)
        self._archive = self._make_archive(environment, root)
        self._model = ServedModel(
            self,
            "Model",
            archive=self._archive,
            image=self._hosting.image,
            variables=self._hosting.variables,
            log_group_arn=log_group_arn,
            rollback_alarm_prefix=name_prefix(endpoint_name) if may_roll_back else None,
            network_isolation=model.network_isolation or environment.security.network_isolation,
            network=environment.network,
            captured=captured,
            volume_kms_key=environment.endpoint.volume_kms_key,
        )

    def _make_archive(self, environment: Environment, root: Path) -> Archive:
        name = self._variant.model
        model = environment.models[name]
        if model.artifact is not None:
            return PinnedArchive(self, "Archive", artifact=model.artifact)
        if model.multi_model is not None:
            members = {
                one: archive_inputs(environment, one, root, at_root=True)
                for one in model.multi_model
            }
            return ModelArchives(self, "Archive", inputs=members, archives=root / ARCHIVES)
        inputs = archive_inputs(environment, name, root)
        if model.compression == "none":
            return UnpackedFiles(self, "Archive", inputs=inputs, made=root / MADE)
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
    def watched(self) -> WatchedVariant:
        """As alarms and dashboards see it."""
        variant = self._variant
        return WatchedVariant(
            name=self.name,
            instance_type=variant.instance_type,
            min_instances=variant.min_instances,
            max_instances=variant.most_instances,
            scales=self.scaled,
        )

    @property
    def _download_timeout_seconds(self) -> int | None:
        return self._variant.download_timeout_seconds or self._hosting.download_timeout_seconds

    @property
    def _startup_timeout_seconds(self) -> int | None:
        return self._variant.startup_timeout_seconds or self._hosting.startup_timeout_seconds

    @property
    def recorded(self) -> dict[str, object]:
        """What it runs, as somebody who goes back to it must know it."""
        return {
            "variant": self.name,
            "model": self._variant.model,
            "archive": self._archive.url,
            "image": self._hosting.image.uri,
            "tensorflow": self._hosting.tensorflow,
            "model_gib": self._served.model_gib,
            "container": self._hosting.settings.model_dump(mode="json", exclude_none=True),
        }

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
