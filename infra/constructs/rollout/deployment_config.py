"""[rollout] in CloudFormation's words."""

from collections.abc import Sequence

from aws_cdk import aws_sagemaker as sagemaker

from infra.parameters.rollout import Rollout
from infra.policy.update import SECONDS_PER_MINUTE, Update

Endpoint = sagemaker.CfnEndpoint


def deployment_config(
    rollout: Rollout,
    alarm_names: Sequence[str],
    *,
    updates: Sequence[Update],
    longest_seconds: int,
) -> sagemaker.CfnEndpoint.DeploymentConfigProperty:
    """An update in the rollout's shares, rolled back by these alarms.

    `updates`: of every variant; `longest_seconds`: after which SageMaker takes it back.
    """
    rollback = Endpoint.AutoRollbackConfigProperty(
        alarms=[Endpoint.AlarmProperty(alarm_name=name) for name in alarm_names]
    )
    wait_seconds = rollout.bake_minutes * SECONDS_PER_MINUTE
    if rollout.strategy == "rolling":
        return Endpoint.DeploymentConfigProperty(
            rolling_update_policy=Endpoint.RollingUpdatePolicyProperty(
                maximum_batch_size=_share(rollout.batch_percent),
                wait_interval_in_seconds=wait_seconds,
                maximum_execution_timeout_in_seconds=longest_seconds,
            ),
            auto_rollback_configuration=rollback,
        )
    routing = Endpoint.TrafficRoutingConfigProperty(
        type=rollout.strategy.upper(),
        # Nothing comes after the only shift of an update all at once: its bake is the wait below.
        # https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green-all-at-once.html
        wait_interval_in_seconds=0 if rollout.strategy == "all_at_once" else wait_seconds,
        canary_size=_share(rollout.canary_percent) if rollout.strategy == "canary" else None,
        linear_step_size=_share(rollout.step_percent) if rollout.strategy == "linear" else None,
    )
    return Endpoint.DeploymentConfigProperty(
        blue_green_update_policy=Endpoint.BlueGreenUpdatePolicyProperty(
            traffic_routing_configuration=routing,
            termination_wait_in_seconds=max(one.last_bake_seconds for one in updates),
            maximum_execution_timeout_in_seconds=longest_seconds,
        ),
        auto_rollback_configuration=rollback,
    )


def _share(percent: int) -> sagemaker.CfnEndpoint.CapacitySizeProperty:
    return Endpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=percent)
