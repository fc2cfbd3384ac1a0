"""The constructs, for use in your own CDK app: `from servable.constructs import Endpoint`.

They are CDK constructs like any other: add them to your stacks next to your own. Each docstring
states defaults, reasons and units; docs/own-app.md begins with a whole app. Only `Environment` reads an
environment file. The constructs live in a package called `infra`, and `Environment` in one called
`stacks`; if your app has a package of that name, the import fails and says what to do.

    model = Model.from_saved_model(stack, "Model", "export")
    endpoint = Endpoint(stack, "Endpoint", endpoint_name="search")
    primary = endpoint.add_variant("primary", model, instance_type="ml.c5.xlarge", max_instances=4)
    primary.auto_scale(max_rps_per_instance=100)
"""

from typing import TYPE_CHECKING, Any

from servable.console.hidden import reject_hidden_packages

reject_hidden_packages(("infra", "model_packaging"))

# ruff: noqa: E402 - reject_hidden_packages has checked which `infra` this is
from infra.arguments import explain_calls
from infra.constructs.access.endpoint_callers import EndpointCallers
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.batch.batch_transform import BatchTransform, LogSettings
from infra.constructs.endpoint.endpoint import Endpoint
from infra.constructs.endpoint.endpoint_base import EndpointBase, MetricProps
from infra.constructs.endpoint.endpoint_config import EndpointConfig
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.inference_component import InferenceComponent
from infra.constructs.endpoint.variant import EndpointVariant
from infra.constructs.model.archive import ArchiveSettings
from infra.constructs.model.model import Model
from infra.constructs.model.network import ModelNetwork
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarm, EndpointAlarms
from infra.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from infra.constructs.monitoring.notifications import AlarmTopic, EndpointEvents, NotificationKey
from infra.constructs.monitoring.watched_endpoint import WatchedVariant
from infra.constructs.storage.locations import (
    AsyncInference,
    AsyncInferenceLocations,
    DataCapture,
    Destination,
)
from infra.constructs.storage.retained_store import AsyncInferenceStore, CaptureStore
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.endpoint import Asynchronous, Capture, Network, Traffic
from infra.parameters.model import ModelTable
from infra.parameters.monitoring import Alarms, Metrics
from infra.parameters.rollout import Rollout
from infra.parameters.scaling import Scaling
from infra.parameters.variant import Component as ComponentSettings
from infra.parameters.variant import CoreDumps, InstancePool, Serverless
from infra.parameters.variant import Variant as VariantSettings
from infra.policy.container import Batching, ContainerSettings

if TYPE_CHECKING:
    from stacks.environment_stage import EnvironmentFileError
    from stacks.environment_stage import EnvironmentStacks as Environment

# fmt: off
__all__ = [
    "AlarmTopic", "Alarms", "ArchiveSettings", "AsyncInference", "AsyncInferenceLocations",
    "AsyncInferenceStore", "Asynchronous", "BatchSettings", "BatchTransform", "Batching", "Capture",
    "CaptureStore", "ComponentSettings", "ContainerSettings", "CoreDumps", "DataCapture", "Destination",
    "Endpoint", "EndpointAlarm", "EndpointAlarms", "EndpointBase", "EndpointCallers", "EndpointConfig",
    "EndpointDashboard", "EndpointEvents", "EndpointLogs", "EndpointVariant", "Environment",
    "EnvironmentFileError", "InferenceComponent", "InstancePool", "LogSettings", "MetricProps", "Metrics",
    "Model", "ModelNetwork", "ModelTable", "Network", "NotificationKey", "RoleRules", "Rollout", "Scaling",
    "Serverless", "Traffic", "VariantSettings", "WatchedVariant",
]
# fmt: on
explain_calls(each for each in list(globals().values()) if isinstance(each, type))


def __getattr__(name: str) -> Any:
    """What a whole environment file needs: the package `stacks`, which apps often have one of."""
    if name not in ("Environment", "EnvironmentFileError"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    reject_hidden_packages(("stacks",))
    from stacks import environment_stage

    names = {"Environment": "EnvironmentStacks"}
    return getattr(environment_stage, names.get(name, name))
