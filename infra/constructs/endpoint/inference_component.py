"""Copies of a model on the instances of a variant that names none: an inference component.

TensorFlow Serving was seen as a component on AWS, with a minimum of one instance
(https://github.com/hashicorp/terraform-provider-aws/pull/48894, 2026-07-09); at zero nobody has shown it.
"""

from dataclasses import dataclass

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.model.served_model import ServedModel

Component = sagemaker.CfnInferenceComponent


@dataclass(frozen=True, kw_only=True)
class ModelCopies:
    """Resources that one copy reserves on its instance, and the minutes after which the copies sleep."""

    name: str
    """Name of the component, which every request names; unique in account and region."""
    sleep_after_minutes: int
    """Minutes without a request after which no copy runs."""
    memory_mib: int
    cpus: float
    accelerators: int = 0
    download_timeout_seconds: int | None = None
    """Default: SageMaker's own; so is the other one's."""
    startup_timeout_seconds: int | None = None


class InferenceComponent(Construct):
    """One AWS::SageMaker::InferenceComponent, which is deployed after its endpoint and deleted before it.

    Every change updates it in place, with new copies beside the old ones.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: sagemaker.CfnEndpoint,
        variant: str,
        model: ServedModel,
        copies: ModelCopies,
    ) -> None:
        """endpoint: The endpoint, whose configuration names no model.
        variant: Name of its variant, on whose instances the copies run.
        model: Model that each copy serves.
        copies: What one copy reserves.
        """
        super().__init__(scope, construct_id)
        self.name = copies.name
        startup = Component.InferenceComponentStartupParametersProperty(
            model_data_download_timeout_in_seconds=copies.download_timeout_seconds,
            container_startup_health_check_timeout_in_seconds=copies.startup_timeout_seconds,
        )
        stated = copies.download_timeout_seconds or copies.startup_timeout_seconds
        self.resource = Component(
            self,
            "Resource",
            inference_component_name=copies.name,
            endpoint_name=endpoint.attr_endpoint_name,
            variant_name=variant,
            specification=Component.InferenceComponentSpecificationProperty(
                model_name=model.name,
                startup_parameters=startup if stated else None,
                compute_resource_requirements=Component.InferenceComponentComputeResourceRequirementsProperty(
                    min_memory_required_in_mb=copies.memory_mib,
                    number_of_cpu_cores_required=copies.cpus,
                    number_of_accelerator_devices_required=copies.accelerators or None,
                ),
            ),
            # Created with none it is refused: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27)
            runtime_config=Component.InferenceComponentRuntimeConfigProperty(copy_count=1),
        )
