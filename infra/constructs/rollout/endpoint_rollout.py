"""An endpoint's deployment configuration, and the new fleet's alarms that roll an update back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from infra.constructs.acknowledged import HIPAA, NIST, accept_for
from infra.constructs.endpoint.endpoint_base import OperatedEndpoint
from infra.constructs.model.execution_role import build_rollback_prefix
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarm
from infra.constructs.monitoring.first_steps import describe_first_step
from infra.constructs.monitoring.signals import Signal
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, create_period
from infra.parameters.monitoring import MILLISECONDS, PERCENT, WATCHED, Alarms
from infra.parameters.rollout import MOST_ALARMS, Rollout
from infra.policy.update import SECONDS_PER_MINUTE, Update

Endpoint = sagemaker.CfnEndpoint
SILENT = {
    "CloudWatchAlarmAction": "SageMaker reads it and rolls the update back; the rollback event is sent "
    "to the alarm topic with its reason"
}


class EndpointRollout(Construct):
    """Alarms on the new fleet of every update, and the endpoint's deployment configuration."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: OperatedEndpoint,
        rollout: Rollout,
        alarms: Alarms,
    ) -> None:
        """Create the alarms and set the configuration. `alarms` has thresholds and window."""
        super().__init__(scope, construct_id)
        endpoint.tables["rollout"] = self, rollout
        endpoint.tables.setdefault("alarms", (self, alarms))
        possible = {
            variant.name: rollout.list_updates(
                least=variant.watched.min_instances,
                most=variant.watched.max_instances,
                window_minutes=endpoint.watched.published.round_up_window(alarms.window_minutes),
            )
            for variant in endpoint.variants
        }
        names = self._create_alarms(endpoint, rollout, alarms, possible)
        longest_seconds = max(
            update.compute_timeout(variant.start_seconds)
            for variant in endpoint.variants
            for update in possible[variant.name]
        )
        rolling = shifting = None
        if rollout.strategy == "rolling":
            rolling = _build_rolling_policy(rollout, longest_seconds)
        else:
            updates = [update for updates in possible.values() for update in updates]
            shifting = _build_blue_green_policy(rollout, longest_seconds, updates)
        alarm_names = [Endpoint.AlarmProperty(alarm_name=name) for name in names]
        endpoint.resource.deployment_config = Endpoint.DeploymentConfigProperty(
            rolling_update_policy=rolling,
            blue_green_update_policy=shifting,
            auto_rollback_configuration=Endpoint.AutoRollbackConfigProperty(alarms=alarm_names),
        )

    def _create_alarms(
        self,
        endpoint: OperatedEndpoint,
        rollout: Rollout,
        alarms: Alarms,
        possible: Mapping[str, Sequence[Update]],
    ) -> list[str]:
        """Create the alarms that roll an update back, and return their names.

        Every configuration gets its own alarms: CloudWatch keeps the state of a changed alarm, and
        one that is in ALARM from the incident would roll back the fix. `possible` are the updates.
        """
        scope = Construct(self, "Rollback")
        config_name = endpoint.config.endpoint_config_name
        new_fleet = replace(endpoint.watched, extra_dimensions={"EndpointConfigName": config_name})
        short, names = endpoint.config.fingerprint[:8], []
        main = [variant.name for variant in endpoint.variants if not variant.table.shadow]
        watched = rollout.list_rollback_alarms(alarms, variants=main, kind=endpoint.kind)
        for variant, kind in watched[:MOST_ALARMS]:
            build = partial(Signal, kind=kind, variant=variant, minutes=alarms.window_minutes)
            if variant is None:
                signal = build(
                    what="golden requests that failed",
                    metric=new_fleet.build_log_metric("GoldenRequestErrors", "Average"),
                    threshold=alarms.error_5xx_percent,
                    unit=PERCENT,
                    # The sender checks the update's stage once a minute, and may see the bake a minute late.
                    minutes=max(1, alarms.window_minutes - 1),
                )
            elif kind == "latency":
                p99 = new_fleet.build_metric("ModelLatency", variant, "p99")
                most = alarms.p99_latency_ms or 0
                signal = build(what="p99 latency", metric=p99, threshold=most, unit=MILLISECONDS)
            else:
                # If the old fleet gets requests in the first bake, its errors are compared there.
                both = all(update.first_share_percent < 100 for update in possible[variant])
                signal = _build_error_signal(new_fleet, variant, kind, alarms, both_serve=both)
            where = "" if variant is None else f" in variant {variant}"
            alarm = EndpointAlarm(
                scope,
                f"{signal.name}-{short}",
                signal=signal,
                name=f"{build_rollback_prefix(endpoint.name)}{signal.name}-{short}",
                description=f"Rolls back an update of {endpoint.name} to configuration {short}: "
                f"{signal.condition}{where}. {signal.few_samples_note}{signal.earliest_alarm_note}"
                f"{describe_first_step('rollback', alarms.runbook)}",
            )
            accept_for((NIST, HIPAA), alarm, SILENT)
            names.append(alarm.alarm_name)
        return names


def _build_error_signal(
    new_fleet: WatchedEndpoint, variant: str, kind: str, alarms: Alarms, *, both_serve: bool
) -> Signal:
    """Return the alarm on a kind of errors.

    Errors other than 5xx count only as far as the old fleet has fewer. `both_serve` is whether
    every update sends the first share to the new fleet and the rest to the old one.

    AWS documents EndpointConfigName for ModelLatency only. If the metric of errors lacks it, the
    errors of both fleets are used, from the first request that the new fleet responds to.
    https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-configuration.html
    (2026-11-23)
    """
    what, metric, _, key = WATCHED["errors"][kind]
    both_fleets = replace(new_fleet, extra_dimensions={})

    # CloudWatch's arithmetic uses 0 for a metric without data next to one with data.
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html (2026-11-23)
    share, threshold, in_words = "new_errors / new_requests", getattr(alarms, key), None
    if kind != "5xx":
        excess = f"{share} - (errors - new_errors) / (requests - new_requests)"
        alone = "" if both_serve else f", {share}"
        share = f"IF(requests - new_requests > 0, {excess}{alone})"
        in_words = f"{what} above the old fleet's percentage by more than {threshold:g} points"
    either = "IF(new_answers + 0 * requests > 0, errors / requests)"
    return Signal(
        kind=kind,
        variant=variant,
        what=what,
        in_words=in_words,
        metric=cloudwatch.MathExpression(
            expression=f"IF(new_requests + 0 * requests > 0, {share}, {either})",
            using_metrics={
                "errors": both_fleets.build_metric(metric, variant, "Sum"),
                "requests": both_fleets.build_metric(metric, variant, "SampleCount"),
                "new_errors": new_fleet.build_metric(metric, variant, "Sum"),
                "new_requests": new_fleet.build_metric(metric, variant, "SampleCount"),
                "new_answers": new_fleet.build_metric("ModelLatency", variant, "SampleCount"),
            },
            # CDK sets it on every metric: these are counted as often as they are published.
            period=create_period(new_fleet.published.requests_seconds),
        ),
        threshold=threshold,
        unit=PERCENT,
        minutes=alarms.window_minutes,
    )


def _build_rolling_policy(
    rollout: Rollout, longest_seconds: int
) -> Endpoint.RollingUpdatePolicyProperty:
    """Return the policy that replaces the fleet in batches, at most for `longest_seconds`."""
    # By default SageMaker starts all of the old fleet at once, beyond a quota that fits a rolling update:
    # https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html (2026-11-22)
    back_percent = rollout.rollback_batch_percent or rollout.batch_percent
    return Endpoint.RollingUpdatePolicyProperty(
        maximum_batch_size=_build_capacity_size(rollout.batch_percent),
        rollback_maximum_batch_size=_build_capacity_size(back_percent),
        wait_interval_in_seconds=rollout.bake_minutes * SECONDS_PER_MINUTE,
        maximum_execution_timeout_in_seconds=longest_seconds,
    )


def _build_blue_green_policy(
    rollout: Rollout, longest_seconds: int, updates: Sequence[Update]
) -> Endpoint.BlueGreenUpdatePolicyProperty:
    """Return the policy that shifts traffic to a second fleet, at most for `longest_seconds`.

    `updates` are those of every variant.
    """
    strategy, canary, step = rollout.strategy, rollout.canary_percent, rollout.step_percent
    # An all-at-once update has only one shift: its bake is the termination wait below.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green-all-at-once.html
    wait_minutes = 0 if strategy == "all_at_once" else rollout.bake_minutes
    routing = Endpoint.TrafficRoutingConfigProperty(
        type=strategy.upper(),
        wait_interval_in_seconds=wait_minutes * SECONDS_PER_MINUTE,
        canary_size=_build_capacity_size(canary) if strategy == "canary" else None,
        linear_step_size=_build_capacity_size(step) if strategy == "linear" else None,
    )
    return Endpoint.BlueGreenUpdatePolicyProperty(
        traffic_routing_configuration=routing,
        termination_wait_in_seconds=max(update.last_bake_seconds for update in updates),
        maximum_execution_timeout_in_seconds=longest_seconds,
    )


def _build_capacity_size(percent: int) -> sagemaker.CfnEndpoint.CapacitySizeProperty:
    return Endpoint.CapacitySizeProperty(type="CAPACITY_PERCENT", value=percent)
