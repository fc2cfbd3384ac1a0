"""What an endpoint needs of the AWS around it, and what it gives: routes and events."""

from collections.abc import Callable
from dataclasses import dataclass

from servable_local.aws.clock import Clock
from servable_local.aws.sagemaker.fleet import Fleet, Variant
from servable_local.aws.sagemaker.rollout import InAlarm

# EventBridge's kinds of events about endpoints.
STATE = "SageMaker Endpoint State Change"
DEPLOYMENT = "SageMaker Endpoint Deployment State Change"


@dataclass(frozen=True)
class Surroundings:
    """Of one endpoint, as its account and region have them."""

    clock: Clock
    start: Callable[[str], Fleet]  # by the name of an endpoint configuration
    in_alarm: InAlarm
    tell: Callable[[str], None]  # a kind of event


@dataclass(frozen=True)
class Route:
    """Where one request goes. `config_name` only while an update is being watched."""

    variant: Variant
    config_name: str | None
    shadow: Variant | None = None
    """Where a copy of it goes."""
