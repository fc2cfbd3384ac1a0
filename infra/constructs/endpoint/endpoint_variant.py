"""The interface of an endpoint's variants, and a variant for CDK apps without environment files."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker

from infra.constructs.endpoint.inference_component import ModelCopies
from infra.constructs.model.served_model import ServedModel
from infra.constructs.monitoring.watched_endpoint import WatchedVariant

Property = sagemaker.CfnEndpointConfig.ProductionVariantProperty


def managed(least: int, most: int) -> sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty:
    """SageMaker adds and removes instances, as copies of components need them."""
    return sagemaker.CfnEndpointConfig.ManagedInstanceScalingProperty(
        status="ENABLED", min_instance_count=least, max_instance_count=most
    )


class EndpointVariant(Protocol):
    """A variant: instances, or serverless containers, that serve one model, or copies of several."""

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
    def copies(self) -> Sequence[ModelCopies]:
        """The inference components, with all that one copy reserves; none if it names its model itself."""

    @property
    def capacity(self) -> tuple[int, int]:
        """Minimum and maximum that scaling may run: instances, copies, or provisioned concurrency."""

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
    """A model on instances of one type, or copies of several.

    With `sleep_after_minutes` or `components` SageMaker adds and removes instances, and `EndpointScaling` is
    for copies.
    """

    name: str
    """Name of the variant, unique in its endpoint."""
    model: ServedModel = None  # type: ignore[assignment]  # never None: see __post_init__
    """The model that `packed_model` has made. Default: that of the first of `components`."""
    components: Sequence[ModelCopies] = ()
    """Models that share the instances, each with copies of its own. Default: none, it serves `model`."""
    sleep_after_minutes: int | None = None
    """Minutes without a request after which no copy of `model` runs, and no instance ten minutes later, if
    there is an `EndpointScaling` with an empty `Scaling`, or another. Default: it never sleeps."""
    instance_type: str | None = None
    """SageMaker instance type. Default: the one that `packed_model` chose image and settings for."""
    min_instances: int = 1
    """Minimum number of instances; without an `EndpointScaling` this is how many run. Default: 1."""
    max_instances: int | None = None
    """Maximum number of instances that an `EndpointScaling` may run. Default: min_instances."""
    initial_instances: int | None = None
    """Instances at creation. Default: 1 with an `EndpointScaling`, which raises them to min_instances, so
    that another minimum replaces no instance; else min_instances."""
    weight: float = 1.0
    """Share of the traffic relative to the other variants. Default: 1, an even split."""
    volume_gb: int | None = None
    """Size of each instance's EBS volume, in GB. Default: SageMaker's own (30)."""
    inference_ami: str | None = None
    """AMI of the host, which has the NVIDIA driver. Default: the oldest that the image runs on."""
    download_timeout_seconds: int | None = None
    """Seconds to download and unpack the model. Default: twice the estimate, or SageMaker's own."""
    startup_timeout_seconds: int | None = None
    """Seconds until the container must answer /ping. Default: twice the estimate, or SageMaker's own."""
    start_seconds: float | None = None
    """Seconds until a new instance answers. Default: the estimate for the model."""
    shadow: bool = False
    """Whether it is a shadow, which gets copies of requests. Default: False."""
    other_models: Sequence[ServedModel] = ()
    scaled: bool = False
    """Whether something scales the variant. Default: False; `EndpointScaling` sets it."""

    def __post_init__(self) -> None:
        if (self.model is None) is not bool(self.components):
            raise ValueError(f"InstanceVariant {self.name}: give its model, or components")
        if self.components:
            first, *others = (each.model for each in self.components)
            object.__setattr__(self, "model", first)
            object.__setattr__(self, "other_models", tuple(others))
        placement = self.model.placement
        defaults: dict[str, Any] = {"max_instances": self.min_instances}
        if placement is not None:
            defaults |= {
                "instance_type": placement.instance.name,
                "inference_ami": placement.driver.value,
                "start_seconds": placement.start_seconds,
                **{name: choice.value for name, choice in placement.timeouts.items()},
            }
        for name, value in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)
        # CDK's tokens are numbers with a fraction's type.
        floats = [key for key, value in vars(self).items() if isinstance(value, float)]
        for name in floats:
            if cdk.Token.is_unresolved(getattr(self, name)):
                raise ValueError(
                    f"InstanceVariant {self.name}: {name}: its value is known only to CloudFormation, and "
                    "alarms, scaling and checks are computed from it; give a number"
                )
        if self.instance_type is None:
            raise ValueError(f"InstanceVariant {self.name}: give its instance_type")

    @property
    def copies(self) -> Sequence[ModelCopies]:
        if self.sleep_after_minutes is not None:
            alone = ModelCopies(
                name=self.name,
                model=self.model,
                max_copies=max(1, self.most_instances),
                sleep_after_minutes=self.sleep_after_minutes,
                download_timeout_seconds=self.download_timeout_seconds,
                startup_timeout_seconds=self.startup_timeout_seconds,
            )
            return [alone.on_part(1)]
        return [each.on_part(len(self.components)) for each in self.components]

    @property
    def most_instances(self) -> int:
        return self.min_instances if self.max_instances is None else self.max_instances

    @property
    def capacity(self) -> tuple[int, int]:
        return 0 if self.sleep_after_minutes else self.min_instances, self.most_instances

    @property
    def watched(self) -> WatchedVariant:
        return WatchedVariant(
            name=self.name,
            instance_type=self.instance_type,
            shared=bool(self.components),
            min_instances=self.capacity[0],
            max_instances=self.most_instances,
            # Not `scaled`: alarms may be made before the scaling.
            scales=self.most_instances > self.capacity[0],
            shadow=self.shadow,
        )

    def production_variant(self) -> Property:
        return Property(
            variant_name=self.name,
            model_name=None if self.copies else self.model.name,
            managed_instance_scaling=managed(*self.capacity) if self.copies else None,
            instance_type=self.instance_type,
            # The minimum of a scaled variant is not used here, so that changing it replaces no fleet.
            initial_instance_count=self.initial_instances
            or (1 if self.scaled else max(1, self.min_instances)),
            initial_variant_weight=self.weight,
            volume_size_in_gb=self.volume_gb,
            inference_ami_version=self.inference_ami,
            model_data_download_timeout_in_seconds=self.download_timeout_seconds,
            container_startup_health_check_timeout_in_seconds=self.startup_timeout_seconds,
            routing_config=sagemaker.CfnEndpointConfig.RoutingConfigProperty(
                routing_strategy="LEAST_OUTSTANDING_REQUESTS"
            ),
        )
