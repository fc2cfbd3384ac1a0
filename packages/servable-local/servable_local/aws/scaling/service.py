"""Application Auto Scaling of one account and Region: its targets, which are scaled at each tick."""

import functools
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import Loopback
from servable_local.aws.sagemaker.component import HostedComponent
from servable_local.aws.sagemaker.endpoint import HostedEndpoint
from servable_local.aws.sagemaker.fleet import HostedVariant
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.published_metrics import publish_scaling_metrics
from servable_scaling.autoscaling import find_breaches
from servable_scaling.scalable_target import (
    COPIES,
    ScaledTarget,
    ScalingActivity,
    TargetTracking,
    parse_scaling_policy,
)
from servable_scaling.scaling_policies import build_alarm_requests
from servable_scaling.target_scaler import Breach, Decision, ScaledResource, TargetScaler

INSTANCES = "sagemaker:variant:DesiredInstanceCount"
KEY = ("ServiceNamespace", "ResourceId", "ScalableDimension")
# AWS keeps six weeks; here a long run must not fill the memory.
_MOST_ACTIVITIES = 1000
Key = tuple[str, str, str]


def parse_key(request: Mapping[str, Any]) -> Key:
    """Return the namespace, resource, and dimension of a request."""
    namespace, resource, dimension = (str(request.get(name)) for name in KEY)
    return namespace, resource, dimension


@dataclass
class RegisteredTarget:
    """A scalable target as it was registered, and its scaler."""

    arn: str
    created: datetime
    role: str
    suspended: dict[str, bool]
    scaler: TargetScaler
    actions: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Scheduled actions by name, as DescribeScheduledActions has them."""


@dataclass
class RegisteredPolicy:
    """A policy in the format of DescribeScalingPolicies, and its own alarms."""

    key: Key
    shown: dict[str, Any]
    alarms: list[str] = field(default_factory=list)


class RegionalScaling:
    """Scaling on the alarms' clock. Variants and components are scaled, others only stored."""

    def __init__(self, aws: Loopback, hosting: RegionalHosting, cloudwatch: CloudWatch) -> None:
        self.aws = aws
        self.lock = threading.RLock()
        self.policies: dict[str, RegisteredPolicy] = {}
        self.activities: list[tuple[str, ScalingActivity]] = []
        self._targets: dict[Key, RegisteredTarget] = {}
        self._hosting = hosting
        self._cloudwatch = cloudwatch

    def now(self) -> datetime:
        return self._cloudwatch.clock.now()

    @property
    def targets(self) -> dict[Key, RegisteredTarget]:
        """Return the targets, after deregistering variants of deleted endpoints."""
        for key in list(self._targets):
            parts = key[1].split("/")
            hosted = len(parts) != 4 or parts[1].lower() in self._hosting.endpoints
            if key[0] == "sagemaker" and not hosted:
                self.deregister(key)
        return self._targets

    def add_target(self, key: Key, target: ScaledTarget, role: str) -> RegisteredTarget:
        at = self.now()
        where = f"arn:aws:application-autoscaling:{self.aws.region}:{self.aws.account}"
        arn = f"{where}:scalable-target/{uuid.uuid4().hex[:16]}"
        scaler = TargetScaler(target, created=at)
        self._targets[key] = RegisteredTarget(arn, at, role, {}, scaler)
        return self._targets[key]

    def enforce_bounds(self, key: Key) -> None:
        """Move the capacity inside the target's bounds at once, as RegisterScalableTarget does."""
        registered, resource = self._targets[key], self._build_resource(key)
        if resource is not None:
            at = self.now()
            decision = registered.scaler.move_inside_bounds(at, resource)
            self._carry_out(key, registered.scaler, decision, at)

    def deregister(self, key: Key) -> None:
        for arn in [arn for arn, policy in self.policies.items() if policy.key == key]:
            self.delete_policy(arn)
        self._targets.pop(key, None)

    def put_policy(self, arn: str, key: Key, request: Mapping[str, Any]) -> RegisteredPolicy:
        """Create a policy or replace the one with this ARN. Changes nothing on a ValueError."""
        policy, scaler = parse_scaling_policy(request), self._targets[key].scaler
        alarms: dict[str, dict[str, Any]] = {}
        if isinstance(policy, TargetTracking):
            alarms = build_alarm_requests(policy, scaler.target, suffix=str(uuid.uuid4()))
        created = self.policies[arn].shown["CreationTime"] if arn in self.policies else self.now()
        shown = {**request, "PolicyARN": arn, "CreationTime": created}
        self.delete_policy(arn)
        registered = self.policies[arn] = RegisteredPolicy(key, shown)
        scaler.policies[arn] = policy
        for alarm in alarms.values():
            self._cloudwatch.alarms.put_alarm("MetricAlarm", {**alarm, "AlarmActions": [arn]}, {})
            registered.alarms.append(alarm["AlarmName"])
        return registered

    def delete_policy(self, arn: str) -> None:
        policy = self.policies.pop(arn, None)
        if policy is not None:
            self._targets[policy.key].scaler.policies.pop(arn, None)
            self._cloudwatch.alarms.delete(policy.alarms)

    def list_alarms(self, arn: str) -> list[dict[str, str]]:
        """Return the policy's own alarms, and others that have it in their actions."""
        own = self.policies[arn].alarms
        return [
            {"AlarmName": alarm.name, "AlarmARN": alarm.arn}
            for alarm in self._cloudwatch.alarms.list_alarms()
            if alarm.name in own or arn in alarm.request.get("AlarmActions", ())
        ]

    def publish_metrics(self, at: datetime) -> None:
        """Publish SageMaker's metrics of scaled resources for the 10 s or minute before `at`."""
        end = at - timedelta(seconds=1)
        publish = functools.partial(publish_scaling_metrics, self._cloudwatch.metrics, end)
        for key in list(self.targets):
            component = self._find_component(key)
            if component is not None and component.copies.serving_count:
                counted, of = component.copies, {"InferenceComponentName": component.name}
                names = ("ConcurrentRequestsPerCopy", "InvocationsPerCopy")
            elif hosted := self._find_variant(key):
                counted = hosted[1].instances
                of = {"EndpointName": hosted[0].name, "VariantName": hosted[1].name}
                names = ("ConcurrentRequestsPerModel", "InvocationsPerInstance")
            else:
                continue
            busy = sum(container.busy for container in list(counted.containers))
            each = busy / max(1, counted.serving_count)
            publish(dimensions=of, concurrency=each, minute_ends=at.second == 0, names=names)

    def tick(self, at: datetime) -> None:
        """Scale the targets, after the alarms at `at` have been evaluated."""
        with self.lock:
            acting: dict[Key, list[Breach]] = {}
            for alarm, rule, evaluation in self._cloudwatch.alarms.acting:
                request = {"AlarmName": alarm.name, **alarm.request}
                for breach in find_breaches(request, rule, evaluation, self.policies):
                    acting.setdefault(self.policies[breach.policy].key, []).append(breach)
            for key, registered in list(self.targets.items()):
                if (resource := self._build_resource(key)) is not None:
                    decision = registered.scaler.advance(at, resource, acting.get(key, ()))
                    self._carry_out(key, registered.scaler, decision, at)

    def _carry_out(self, key: Key, scaler: TargetScaler, decision: Decision, at: datetime) -> None:
        self.activities += [(str(uuid.uuid4()), activity) for activity in decision.activities]
        del self.activities[:-_MOST_ACTIVITIES]
        hosted, component = self._find_variant(key), self._find_component(key)
        if decision.desired is None:
            return
        try:
            if component is not None:
                component.update(None, decision.desired)
            elif hosted is not None:
                hosted[0].scale({hosted[1].name: decision.desired})
        except SageMakerError as error:
            scaler.record_failure(decision.activities[-1], at, str(error.message))

    def _find_component(self, key: Key) -> HostedComponent | None:
        """Return the component, or None if the key is for something else or it doesn't exist."""
        name = key[1].removeprefix("inference-component/").lower()
        return self._hosting.components.get(name) if key[2] == COPIES else None

    def _find_variant(self, key: Key) -> tuple[HostedEndpoint, HostedVariant] | None:
        """Return a served variant with its endpoint; None for a target that is only stored."""
        _, resource_id, dimension = key
        if dimension != INSTANCES:
            return None
        _, endpoint_name, _, name = resource_id.split("/")
        endpoint = self._hosting.endpoints.get(endpoint_name.lower())
        if endpoint is None or endpoint.fleet is None:
            return None
        for variant in endpoint.fleet.list_variants():
            if variant.name == name:
                return endpoint, variant
        return None

    def _build_resource(self, key: Key) -> ScaledResource | None:
        if (component := self._find_component(key)) is not None:
            counts = component.desired, component.copies.serving_count
            return ScaledResource(*counts, component.is_in_progress, component.failure)
        hosted = self._find_variant(key)
        if hosted is None:
            return None
        endpoint, instances = hosted[0], hosted[1].instances
        counts = instances.desired, instances.serving_count
        return ScaledResource(*counts, endpoint.is_in_progress, instances.failure)
