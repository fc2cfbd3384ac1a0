"""The interface of an endpoint's variants, and a variant for CDK apps without environment files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aws_cdk import aws_sagemaker as sagemaker

from infra.constructs.model.served_model import ServedModel
from infra.constructs.monitoring.watched_endpoint import WatchedVariant

Property = sagemaker.CfnEndpointConfig.ProductionVariantProperty


class EndpointVariant(Protocol):
    """A variant: instances, or serverless containers, that serve one model."""

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> ServedModel: ...

    @property
    def other_models(self) -> Sequence[ServedModel]:
        """The models of instance types that do not run `model`."""

    @property
    def scaled(self) -> bool:
        """Whether scaling sets the number of instances, which an update then keeps."""

    @property
    def shadow(self) -> bool: ...

    @property
    def capacity(self) -> tuple[int, int]:
        """Minimum and maximum that scaling may run: instances, or provisioned concurrency."""

    @property
    def start_seconds(self) -> float | None:
        """Estimated seconds until a new instance answers; None if unknown."""

    @property
    def watched(self) -> WatchedVariant:
        """The variant as alarms and dashboards use it."""

    def production_variant(self) -> Property:
        """The variant's property of the endpoint configuration."""


@dataclass(frozen=True, kw_only=True)
class InstanceVariant:
    """A model on instances of one type, with a minimum of arguments."""

    name: str
    model: ServedModel
    instance_type: str
    min_instances: int = 1
    max_instances: int = 1
    initial_instances: int | None = None
    """Instances at creation; None means 1 if the variant scales, else min_instances."""
    weight: float = 1.0
    start_seconds: float | None = None
    shadow: bool = False
    other_models: Sequence[ServedModel] = ()

    @property
    def scaled(self) -> bool:
        return self.max_instances > self.min_instances

    @property
    def capacity(self) -> tuple[int, int]:
        return self.min_instances, self.max_instances

    @property
    def watched(self) -> WatchedVariant:
        return WatchedVariant(
            name=self.name,
            instance_type=self.instance_type,
            min_instances=self.min_instances,
            max_instances=self.max_instances,
            scales=self.scaled,
            shadow=self.shadow,
        )

    def production_variant(self) -> Property:
        return Property(
            variant_name=self.name,
            model_name=self.model.name,
            instance_type=self.instance_type,
            # The minimum of a scaled variant is not used here, so that changing it replaces no fleet.
            initial_instance_count=self.initial_instances
            or (1 if self.scaled else self.min_instances),
            initial_variant_weight=self.weight,
            routing_config=sagemaker.CfnEndpointConfig.RoutingConfigProperty(
                routing_strategy="LEAST_OUTSTANDING_REQUESTS"
            ),
        )
