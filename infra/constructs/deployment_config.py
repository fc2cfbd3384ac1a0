"""[rollout] in CloudFormation's words."""

from collections.abc import Sequence

from aws_cdk import aws_sagemaker as sagemaker

from infra.parameters.rollout import Rollout

Endpoint = sagemaker.CfnEndpoint

SECONDS_PER_MINUTE = 60
# Instances of the old fleet that stay after the last shift, so that a rollback at the very end is quick.
# https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html
TERMINATION_WAIT_SECONDS = 120


def deployment_config(
    rollout: Rollout, alarm_names: Sequence[str]
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    """An update in the rollout's shares, rolled back by these alarms."""
    rollback = Endpoint.AutoRollbackConfigProperty(
        alarms=[Endpoint.AlarmProperty(alarm_name=name) for name in alarm_names]
    )
    if rollout.strategy == "rolling":
        return Endpoint.DeploymentConfigProperty(
            rolling_update_policy=Endpoint.RollingUpdatePolicyProperty(
                maximum_batch_size=_share(rollout.batch_percent),
                wait_interval_in_seconds=rollout.bake_minutes * SECONDS_PER_MINUTE,
            ),
            auto_rollback_configuration=rollback,
        )
    routing = Endpoint.TrafficRoutingConfigProperty(
        type=rollout.strategy.upper(),
        wait_interval_in_seconds=rollout.bake_minutes * SECONDS_PER_MINUTE,
        canary_size=_share(rollout.canary_percent) if rollout.strategy == "canary" else None,
        linear_step_size=_share(rollout.step_percent) if rollout.strategy == "linear" else None,
    )
    return Endpoint.DeploymentConfigProperty(
        blue_green_update_policy=Endpoint.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=routing,
            termination_wait_in_seconds=TERMINATION_WAIT_SECONDS,
        ),
        auto_rollback_configuration=rollback,
    )


def _share(percent: int) -> sagemaker.CfnEndpoint.CapacitySizeProperty:
    return Endpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=percent)
