"""An inference component: copies of a model on the instances of a variant that names no model.

TensorFlow Serving was seen as a component on AWS, with a minimum of one instance
(https://github.com/hashicorp/terraform-provider-aws/pull/48894, 2026-07-09); nobody has shown it
with a minimum of zero.
"""

from typing import Protocol

from aws_cdk import aws_applicationautoscaling as autoscaling
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.arguments import read_arguments
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.model.model import HostedModel, Model
from infra.constructs.monitoring.watched_endpoint import WatchedVariant
from infra.parameters.placement import Placement
from infra.parameters.scaling import Scaling
from infra.parameters.variant import Component

CfnComponent = sagemaker.CfnInferenceComponent


class ScaledEndpoint(Protocol):
    """The endpoint of a variant or a component, which creates their scaling when it is synthesized."""

    name: str

    def add_scaling(
        self, part: "ScaledPart", settings: Scaling, construct_id: str | None
    ) -> None: ...

    def require_open(self, call: str) -> None: ...


class ScaledPart(Construct):
    """A variant or an inference component, whose instances or copies scale."""

    key: str
    """Its name in the endpoint."""
    _endpoint: ScaledEndpoint
    target: autoscaling.ScalableTarget | None = None
    """CDK's scalable target, once the endpoint's constructs exist: read `endpoint.alarms` before it."""

    def auto_scale(
        self,
        *,
        max_rps_per_instance: float | None = None,
        max_concurrency_per_instance: float | None = None,
        settings: Scaling | None = None,
        construct_id: str | None = None,
    ) -> None:
        """Scale between the minimum and the maximum; copies with sleep_after_minutes scale to zero.

        A fleet starts with one instance, and scaling raises it to min_instances. If your own scalable target
        scales a variant, pass `settings=Scaling(hold=True)`, which creates none.

        max_rps_per_instance: Requests per second that one instance, or copy, sustains. Default: that of
            `settings`.
        max_concurrency_per_instance: Concurrent requests that one sustains. Default: that of `settings`.
        settings: Further settings: steps, schedules, cooldowns. Default: none.
        construct_id: ID next to the endpoint, for scaling that is deployed. Default: Scaling-NAME, below
            the endpoint.
        """
        self._endpoint.require_open("auto_scale")
        given = {
            "max_rps_per_instance": max_rps_per_instance,
            "max_concurrency_per_instance": max_concurrency_per_instance,
        }
        read = read_arguments(f"{self.node.path}: auto_scale", Scaling, given, settings)
        self._endpoint.add_scaling(self, read, construct_id)


class InferenceComponent(ScaledPart):
    """One AWS::SageMaker::InferenceComponent, which is deployed after its endpoint and deleted before it.

    `EndpointVariant.add_component` creates it. Every change updates it in place, with new copies next to the
    old ones.
    """

    resource: CfnComponent
    """The resource, once the endpoint's constructs exist."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ScaledEndpoint,
        key: str,
        model: Model,
        table: Component,
        logs: EndpointLogs | None = None,
    ) -> None:
        """Store the settings; `create` creates the resource. `key` is its name in the endpoint."""
        super().__init__(scope, construct_id)
        self._endpoint = endpoint
        self.key, self.model, self.table, self.logs = key, model, table, logs
        self.name = f"{endpoint.name}-{key}"
        """Its name in SageMaker, which every request names."""

    @property
    def watched(self) -> WatchedVariant:
        """Return the copies as alarms and dashboards use them."""
        least, most = self.table.capacity
        return WatchedVariant(
            name=self.key,
            component=self.name,
            min_instances=least,
            max_instances=most,
            scales=most > least,
        )

    def create(
        self, endpoint: sagemaker.CfnEndpoint, variant: str, placed: Placement, model: HostedModel
    ) -> None:
        """Create the resource. `placed` decides what one copy reserves."""
        download, start = (
            placed.timeouts[f"{step}_timeout_seconds"].value for step in ("download", "startup")
        )
        startup = CfnComponent.InferenceComponentStartupParametersProperty(
            model_data_download_timeout_in_seconds=download,
            container_startup_health_check_timeout_in_seconds=start,
        )
        self.resource = CfnComponent(
            self,
            "Resource",
            inference_component_name=self.name,
            endpoint_name=endpoint.attr_endpoint_name,
            variant_name=variant,
            specification=CfnComponent.InferenceComponentSpecificationProperty(
                model_name=model.name,
                startup_parameters=startup if download or start else None,
                compute_resource_requirements=CfnComponent.InferenceComponentComputeResourceRequirementsProperty(
                    min_memory_required_in_mb=placed.copy_memory_mib.value,
                    number_of_cpu_cores_required=placed.copy_cpus.value,
                    number_of_accelerator_devices_required=placed.copy_gpus.value or None,
                ),
            ),
            # SageMaker rejects creation without a copy: https://github.com/stdapi-ai/stdapi.ai/issues/43
            # (2026-08-27)
            runtime_config=CfnComponent.InferenceComponentRuntimeConfigProperty(
                copy_count=max(1, self.table.capacity[0])
            ),
        )
