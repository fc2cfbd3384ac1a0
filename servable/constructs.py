"""The constructs, for use in your own CDK app: `from servable.constructs import ModelEndpoint`.

They are CDK constructs like any other: add them to your stacks next to your own. Each docstring
states defaults, reasons and units; docs/own-app.md begins with a whole app. Only `Environment` reads an
environment file. The constructs live in a package called `infra`, and `Environment` in one called
`stacks`; if your app has a package of that name, the import fails and says what to do.

    endpoint = ModelEndpoint(stack, "Endpoint", name="search", variants=[variant], logs=logs)
    EndpointAlarms(stack, "Alarms", endpoint=endpoint, alarms=Alarms(p99_latency_ms=80), inform=topic)
"""

from typing import TYPE_CHECKING, Any

from servable.console.hidden import refuse_hidden

refuse_hidden(("infra", "model_packaging"))

# ruff: noqa: E402 - refuse_hidden has checked which `infra` this is
from infra.constructs.access.endpoint_callers import EndpointCallers
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.async_inference.async_inference import AsyncInference
from infra.constructs.batch.batch_transform import BatchTransform
from infra.constructs.endpoint.endpoint_interface import IEndpoint, MetricProps
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.endpoint_variant import EndpointVariant, InstanceVariant
from infra.constructs.endpoint.inference_component import InferenceComponent, ModelCopies
from infra.constructs.endpoint.model_endpoint import DataCapture, ModelEndpoint, data_capture
from infra.constructs.model.packed_model import PackedModel, packed_model
from infra.constructs.model.served_model import ServedModel
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarm, EndpointAlarms
from infra.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from infra.constructs.monitoring.notifications import AlarmTopic, EndpointEvents, NotificationKey
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, WatchedVariant
from infra.constructs.rollout.endpoint_rollout import EndpointRollout
from infra.constructs.scaling.endpoint_scaling import EndpointScaling
from infra.constructs.storage.locations import AsyncInferenceLocations, Destination
from infra.constructs.storage.retained_store import AsyncInferenceStore, CaptureStore
from infra.parameters.alarms import Alarms
from infra.parameters.batch.settings import BatchSettings
from infra.parameters.endpoint import Network, Traffic
from infra.parameters.metrics import Metrics
from infra.parameters.retained import Asynchronous, Capture
from infra.parameters.rollout import Rollout
from infra.parameters.scaling import Scaling
from infra.policy.container import Batching, ContainerSettings

if TYPE_CHECKING:
    from stacks.environment_stage import EnvironmentFileError
    from stacks.environment_stage import EnvironmentStacks as Environment

# fmt: off
__all__ = [
    "AlarmTopic", "Alarms", "AsyncInference", "AsyncInferenceLocations", "AsyncInferenceStore",
    "Asynchronous", "BatchSettings", "BatchTransform", "Batching", "Capture", "CaptureStore",
    "ContainerSettings", "DataCapture", "Destination", "EndpointAlarm", "EndpointAlarms",
    "EndpointCallers", "EndpointDashboard", "EndpointEvents", "EndpointLogs", "EndpointRollout",
    "EndpointScaling", "EndpointVariant", "Environment", "EnvironmentFileError", "IEndpoint",
    "InferenceComponent", "InstanceVariant", "MetricProps", "Metrics", "ModelCopies", "ModelEndpoint",
    "Network", "NotificationKey", "PackedModel", "RoleRules", "Rollout", "Scaling", "ServedModel",
    "Traffic", "WatchedEndpoint", "WatchedVariant", "data_capture", "packed_model",
]
# fmt: on


def __getattr__(name: str) -> Any:
    """What a whole environment file needs: the package `stacks`, which apps often have one of."""
    if name not in ("Environment", "EnvironmentFileError"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    refuse_hidden(("stacks",))
    from stacks import environment_stage

    names = {"Environment": "EnvironmentStacks"}
    return getattr(environment_stage, names.get(name, name))
