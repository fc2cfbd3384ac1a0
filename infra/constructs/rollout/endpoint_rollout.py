"""How updates of an endpoint go: share by share, watched, and taken back by alarms."""

from constructs import Construct

from infra.constructs.endpoint.model_endpoint import ModelEndpoint
from infra.constructs.rollout.deployment_config import deployment_config
from infra.constructs.rollout.rollback_alarms import RollbackAlarms
from infra.parameters.alarms import Alarms
from infra.parameters.rollout import Rollout


class EndpointRollout(Construct):
    """Alarms on the new fleet of every update, and the endpoint's deployment configuration."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: ModelEndpoint,
        rollout: Rollout,
        alarms: Alarms,
    ) -> None:
        """`alarms`: thresholds and window; `p99_latency_ms` and `error_5xx_percent` are watched."""
        super().__init__(scope, construct_id)
        rollback = RollbackAlarms(
            self,
            "Rollback",
            endpoint_name=endpoint.name,
            config_name=endpoint.config.attr_endpoint_config_name,
            fingerprint=endpoint.fingerprint,
            variants=[one.name for one in endpoint.variants if not one.shadow],
            kind=endpoint.kind,
            alarms=alarms,
        )
        possible = [
            (update, one.start_seconds)
            for one in endpoint.variants
            for update in rollout.updates(
                least=one.watched.min_instances,
                most=one.watched.max_instances,
                window_minutes=alarms.window_minutes,
            )
        ]
        endpoint.resource.deployment_config = deployment_config(
            rollout,
            rollback.names,
            updates=[update for update, _ in possible],
            longest_seconds=max(update.longest_seconds(start) for update, start in possible),
        )
