"""Copies of a model on the instances of a variant that names none: an inference component.

TensorFlow Serving was seen as a component on AWS, with a minimum of one instance
(https://github.com/hashicorp/terraform-provider-aws/pull/48894, 2026-07-09); at zero nobody has shown it.
"""

from dataclasses import dataclass, replace
from typing import Any

from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.model.served_model import ServedModel
from infra.policy.derived_settings import Choice

Component = sagemaker.CfnInferenceComponent


@dataclass(frozen=True, kw_only=True)
class ModelCopies:
    """Copies of a model on a variant's instances: how many, and what each of them reserves there.

    `EndpointScaling` adds and removes them; it is also what lets them sleep and wakes them.
    """

    name: str
    """Name in the endpoint. The component, which every request names, is ENDPOINT-NAME: unique in account
    and region."""
    model: ServedModel
    min_copies: int = 1
    """Minimum number of copies; 0 with sleep_after_minutes. Default: 1."""
    max_copies: int | None = None
    """Maximum number of copies. Default: min_copies, at least 1."""
    sleep_after_minutes: int | None = None
    """Minutes without a request after which no copy runs. Default: never."""
    memory_mib: int | None = None
    """Memory that a copy reserves. Default: what its servers and workers need, at least 1024."""
    cpus: float | None = None
    """vCPUs that a copy reserves. Default: of one component more than half of an instance, so that each copy
    has one to itself; of several an equal part."""
    gpus: int | None = None
    """GPUs that a copy reserves. Default: those of the instance, divided among the components."""
    download_timeout_seconds: int | None = None
    """Default: twice the estimate, or SageMaker's own; so is the other one's."""
    startup_timeout_seconds: int | None = None

    @property
    def capacity(self) -> tuple[int, int]:
        """Minimum and maximum of copies."""
        least = 0 if self.sleep_after_minutes else self.min_copies
        return least, max(1, self.min_copies if self.max_copies is None else self.max_copies)

    def on_part(self, parts: int) -> "ModelCopies":
        """The same with what follows from the model's placement, if so many components share an instance.

        Raises ValueError if the model has none, and memory or CPUs are not given.
        """
        placement = self.model.placement
        if placement is None:
            if self.memory_mib is None or self.cpus is None:
                raise ValueError(f"ModelCopies {self.name}: give its memory_mib and cpus")
            return self
        placement = replace(placement, parts=parts)
        derived: dict[str, Choice[Any]] = {
            "memory_mib": placement.copy_memory_mib,
            "cpus": placement.copy_cpus,
            "gpus": placement.copy_gpus,
            **placement.timeouts,
        }
        chosen = {key: choice.value for key, choice in derived.items()}
        return replace(self, **{key: chosen[key] for key in chosen if getattr(self, key) is None})


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
        name: str,
        copies: ModelCopies,
    ) -> None:
        """endpoint: The endpoint, whose configuration names no model.
        variant: Name of its variant, on whose instances the copies run.
        name: Name that every request names.
        copies: The model, and what one copy of it reserves.
        """
        super().__init__(scope, construct_id)
        self.name = name
        startup = Component.InferenceComponentStartupParametersProperty(
            model_data_download_timeout_in_seconds=copies.download_timeout_seconds,
            container_startup_health_check_timeout_in_seconds=copies.startup_timeout_seconds,
        )
        stated = copies.download_timeout_seconds or copies.startup_timeout_seconds
        self.resource = Component(
            self,
            "Resource",
            inference_component_name=name,
            endpoint_name=endpoint.attr_endpoint_name,
            variant_name=variant,
            specification=Component.InferenceComponentSpecificationProperty(
                model_name=copies.model.name,
                startup_parameters=startup if stated else None,
                compute_resource_requirements=Component.InferenceComponentComputeResourceRequirementsProperty(
                    min_memory_required_in_mb=copies.memory_mib,
                    number_of_cpu_cores_required=copies.cpus,
                    number_of_accelerator_devices_required=copies.gpus or None,
                ),
            ),
            # Created with none it is refused: https://github.com/stdapi-ai/stdapi.ai/issues/43 (2026-08-27)
            runtime_config=Component.InferenceComponentRuntimeConfigProperty(
                copy_count=max(1, copies.capacity[0])
            ),
        )
