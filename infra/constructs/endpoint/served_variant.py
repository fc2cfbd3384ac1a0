"""Machines that answer with one model."""

from pathlib import Path

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.async_inference.queue import Queue
from infra.constructs.endpoint.watched_endpoint import WatchedVariant
from infra.constructs.model.archive import Archive
from infra.constructs.model.model_archive import ModelArchive
from infra.constructs.model.model_archives import ModelArchives
from infra.constructs.model.pinned_archive import PinnedArchive
from infra.constructs.model.places import Destination
from infra.constructs.model.served_model import ServedModel
from infra.constructs.model.unpacked_files import UnpackedFiles
from infra.constructs.rollout.rollback_alarms import name_prefix
from infra.packing import archive_inputs
from infra.parameters.environment import Environment
from infra.parameters.model import served
from infra.parameters.variant import Serverless, Variant
from infra.policy.hosting import hosting
from infra.policy.sizing import start_seconds
from model_packaging.places import ARCHIVES, MADE

Variants = sagemaker.CfnEndpointConfig


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
        queue: Queue | None = None,
    ) -> None:
        """`may_roll_back`: updates are watched by alarms, which the role must then read.
        `captured`, `queue`: where samples and answers go, which the role must then write."""
        super().__init__(scope, construct_id)
        self.name = name
        self.scaled = variant.scaling is not None and variant.serverless is None
        """Whether its count is scaling's, also while that holds it."""
        self.shadow = variant.shadow
        self._variant = variant
        model = environment.models[variant.model]
        # SageMaker sends a request of several models to where its model is loaded, and instances
        # take theirs from a queue by themselves.
        routed = queue is None and model.multi_model is None
        self._routing = variant.routing or ("least_outstanding_requests" if routed else None)
        known = served(environment.models, variant.model, root)
        self._hosting = hosting(
            instance_type=variant.instance_type,
            tensorflow=model.tensorflow,
            region=region,
            container=variant.container,
            default_model=None if model.multi_model else variant.model,
            served=known,
            own_image=model.image,
            own_variables=variant.variables,
            inference_ami=variant.inference_ami,
            serverless_memory_mib=variant.serverless_memory_mib,
        )
        self.start_seconds = (
            start_seconds(known, processes=self._hosting.settings.tfs_processes or 1)
            if variant.serverless is None
            else None
        )
        """Until a new instance answers, estimated; None where the model's size is unknown, and of
        serverless."""
        self._served = known
        self._archive = self._make_archive(environment, root)
        self.model = ServedModel(
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
            queue=queue,
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
        if self._variant.serverless is not None:
            return self._serverless(self._variant.serverless)
        return sagemaker.CfnEndpointConfig.ProductionVariantProperty(
            variant_name=self.name,
            model_name=self.model.name,
            instance_type=self._variant.instance_type,
            # It starts with one, also where a queue may later wait for none.
            initial_instance_count=max(1, self._variant.min_instances),
            initial_variant_weight=self._variant.weight,
            inference_ami_version=self._hosting.inference_ami,
            volume_size_in_gb=self._variant.volume_gb,
            model_data_download_timeout_in_seconds=self._download_timeout_seconds,
            container_startup_health_check_timeout_in_seconds=self._startup_timeout_seconds,
            routing_config=Variants.RoutingConfigProperty(routing_strategy=self._routing.upper())
            if self._routing
            else None,
            enable_ssm_access=self._variant.ssm_access or None,
        )

    def _serverless(
        self, asked: Serverless
    ) -> sagemaker.CfnEndpointConfig.ProductionVariantProperty:
        return Variants.ProductionVariantProperty(
            variant_name=self.name,
            model_name=self.model.name,
            initial_variant_weight=self._variant.weight,
            serverless_config=Variants.ServerlessConfigProperty(
                max_concurrency=asked.max_concurrency,
                memory_size_in_mb=asked.memory_mib,
                provisioned_concurrency=asked.provisioned_concurrency,
            ),
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
            scales=variant.scales and variant.serverless is None,
            shadow=variant.shadow,
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
