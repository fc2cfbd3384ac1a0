"""Application Auto Scaling's operations.

Errors for missing resources, and what deregistering deletes, follow AWS's reference (2026-11-22):
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html,
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_DeregisterScalableTarget.html
"""

import json
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar
from zoneinfo import ZoneInfoNotFoundError

from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult, BaseResponse

from servable_local.aws.errors import AwsError, SageMakerError
from servable_local.aws.loopback import Regions
from servable_local.aws.sagemaker.endpoint import list_specified_variants
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.scaling.service import (
    KEY,
    Key,
    RegionalScaling,
    RegisteredTarget,
    parse_key,
)
from servable_scaling.scalable_target import COPIES, ScaledTarget, ScheduledAction, SuspendedState

SERVICE = "application-autoscaling"
_PAGE = 50
_SUSPENDED = ("DynamicScalingInSuspended", "DynamicScalingOutSuspended",
              "ScheduledScalingSuspended")  # fmt: skip


class ScalingNotFoundError(ServiceException):
    code = "ObjectNotFoundException"


class ScalingApi(BaseResponse):
    """The API of scaling. `scalings` and `hostings` are set when the server is built."""

    scalings: ClassVar[Regions[RegionalScaling]]
    hostings: ClassVar[Regions[RegionalHosting]]
    checked = SERVICE

    def __init__(self) -> None:
        super().__init__(service_name=SERVICE)

    @property
    def scaling(self) -> RegionalScaling:
        return self.scalings.provide_service(self.current_account, self.region)

    def _read_request(self) -> dict[str, Any]:
        return dict(json.loads(self.body or "{}"))

    def _require_target(self, key: Key) -> RegisteredTarget:
        registered = self.scaling.targets.get(key)
        if registered is None:
            named = "service namespace: {}, resource ID: {}, scalable dimension: {}".format(*key)
            raise ScalingNotFoundError(f"No scalable target registered for {named}")
        return registered

    def register_scalable_target(self) -> ActionResult:
        request, here = self._read_request(), self.scaling
        key = parse_key(request)
        if key[0] == "sagemaker":
            self._check_resource(key)
        with here.lock:
            registered = here.targets.get(key)
            least, most = request.get("MinCapacity"), request.get("MaxCapacity")
            if registered is None and None in (least, most):
                needed = "are required to register a new scalable target."
                raise SageMakerError(f"MinCapacity and MaxCapacity {needed}")
            now = registered.scaler.target if registered else None
            low = int(least if least is not None else now.minimum if now else 0)
            high = int(most if most is not None else now.maximum if now else 0)
            if low > high:
                problem = "Maximum capacity cannot be less than minimum capacity"
                raise SageMakerError(problem)
            if registered is None:
                target = ScaledTarget(key[1], key[2], low, high, service=key[0])
                # The service-linked role, which is AWS's default.
                path = f"aws-service-role/sagemaker.{SERVICE}.amazonaws.com"
                name = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"
                role = f"arn:aws:iam::{self.current_account}:role/{path}/{name}"
                registered = here.add_target(key, target, role)
            registered.suspended |= request.get("SuspendedState", {})
            registered.role = request.get("RoleARN", registered.role)
            suspended = SuspendedState.from_properties(registered.suspended)
            registered.scaler.register(low, high, suspended)
            here.enforce_bounds(key)
        return ActionResult({"ScalableTargetARN": registered.arn})

    def _check_resource(self, key: Key) -> None:
        here = self.hostings.provide_service(self.current_account, self.region)
        parts = key[1].split("/")
        if key[2] == COPIES:
            here.components.find(key[1].removeprefix("inference-component/"))
            return
        if len(parts) != 4 or (parts[0], parts[2]) != ("endpoint", "variant"):
            raise SageMakerError(f"ResourceId {key[1]}: expected endpoint/NAME/variant/VARIANT.")
        endpoint = here.endpoints.find(parts[1])
        variants = [variant["VariantName"] for variant in list_specified_variants(endpoint.config)]
        if parts[3] not in variants:
            raise SageMakerError(
                f"The endpoint {parts[1]} has no variant {parts[3]}; it has {', '.join(variants)}."
            )

    def deregister_scalable_target(self) -> ActionResult:
        key = parse_key(self._read_request())
        self._require_target(key)
        with self.scaling.lock:
            self.scaling.deregister(key)
        return ActionResult({})

    def describe_scalable_targets(self) -> ActionResult:
        request = self._read_request()
        shown = [
            {
                **dict(zip(KEY, key, strict=True)),
                "MinCapacity": target.scaler.target.minimum,
                "MaxCapacity": target.scaler.target.maximum,
                "RoleARN": target.role,
                "CreationTime": target.created,
                "SuspendedState": {name: target.suspended.get(name, False) for name in _SUSPENDED},
                "ScalableTargetARN": target.arn,
            }
            for key, target in self.scaling.targets.items()
            if _is_requested(key, request) and key[1] in request.get("ResourceIds", [key[1]])
        ]
        return _build_page("ScalableTargets", shown, request)

    def put_scaling_policy(self) -> ActionResult:
        request, here = self._read_request(), self.scaling
        key = parse_key(request)
        self._require_target(key)
        arn = self._find_policy_arn(key, request["PolicyName"])
        if arn is None:
            where = f"arn:aws:autoscaling:{self.region}:{self.current_account}:scalingPolicy"
            name = f"resource/{key[0]}/{key[1]}:policyName/{request['PolicyName']}"
            arn = f"{where}:{uuid.uuid4()}:{name}"
        try:
            with here.lock:
                here.put_policy(arn, key, request)
        except (KeyError, ValueError) as error:
            raise SageMakerError(str(error)) from None
        names = here.policies[arn].alarms
        own = [alarm for alarm in here.list_alarms(arn) if alarm["AlarmName"] in names]
        return ActionResult({"PolicyARN": arn, "Alarms": own})

    def _find_policy_arn(self, key: Key, name: str) -> str | None:
        for arn, policy in self.scaling.policies.items():
            if policy.key == key and policy.shown["PolicyName"] == name:
                return arn
        return None

    def delete_scaling_policy(self) -> ActionResult:
        request = self._read_request()
        arn = self._find_policy_arn(parse_key(request), request["PolicyName"])
        if arn is None:
            raise ScalingNotFoundError(
                f"No scaling policy found for policy name: {request['PolicyName']}"
            )
        with self.scaling.lock:
            self.scaling.delete_policy(arn)
        return ActionResult({})

    def describe_scaling_policies(self) -> ActionResult:
        query, here = self._read_request(), self.scaling
        shown = [
            {**policy.shown, "Alarms": here.list_alarms(arn)}
            for arn, policy in here.policies.items()
            if _is_requested(policy.key, query)
            and policy.shown["PolicyName"] in query.get("PolicyNames", [policy.shown["PolicyName"]])
        ]
        return _build_page("ScalingPolicies", shown, query)

    def put_scheduled_action(self) -> ActionResult:
        request = self._read_request()
        key = parse_key(request)
        registered, name = self._require_target(key), request["ScheduledActionName"]
        before = registered.actions.get(name, {})
        # An omitted StartTime or EndTime is deleted; other omitted settings stay.
        previous = {k: v for k, v in before.items() if k not in ("StartTime", "EndTime")}
        now = self.scaling.now()
        where = f"arn:aws:autoscaling:{self.region}:{self.current_account}:scheduledAction"
        arn = f"{where}:{uuid.uuid4()}:resource/{key[0]}/{key[1]}:scheduledActionName/{name}"
        action = {"ScheduledActionARN": arn, "CreationTime": now, **previous, **request}
        if "Schedule" not in action:
            raise SageMakerError("Schedule is required for a new scheduled action.")
        try:
            with self.scaling.lock:
                registered.scaler.put_action(ScheduledAction.from_properties(action), now)
        except (ValueError, ZoneInfoNotFoundError) as error:
            raise SageMakerError(f"{error}") from None
        registered.actions[name] = action
        return ActionResult({})

    def delete_scheduled_action(self) -> ActionResult:
        request = self._read_request()
        registered, name = self._require_target(parse_key(request)), request["ScheduledActionName"]
        if registered.actions.pop(name, None) is None:
            raise ScalingNotFoundError(f"No scheduled action found for name: {name}")
        registered.scaler.actions.pop(name, None)
        return ActionResult({})

    def describe_scheduled_actions(self) -> ActionResult:
        request = self._read_request()
        shown = [
            action
            for key, target in self.scaling.targets.items()
            for name, action in target.actions.items()
            if _is_requested(key, request) and name in request.get("ScheduledActionNames", [name])
        ]
        return _build_page("ScheduledActions", shown, request)

    def describe_scaling_activities(self) -> ActionResult:
        request = self._read_request()
        shown = [
            activity.describe(number)
            for number, activity in reversed(self.scaling.activities)
            if _is_requested(
                (activity.target.service, activity.target.resource_id, activity.target.dimension),
                request,
            )
            and (activity.not_scaled is None or request.get("IncludeNotScaledActivities"))
        ]
        return _build_page("ScalingActivities", shown, request)

    def list_tags_for_resource(self) -> ActionResult:
        return ActionResult({"Tags": {}})  # tags of targets aren't stored


def _is_requested(key: Key, request: Mapping[str, Any]) -> bool:
    return all(request.get(name) in (None, value) for name, value in zip(KEY, key, strict=True))


def _build_page(name: str, shown: list[dict[str, Any]], request: Mapping[str, Any]) -> ActionResult:
    token = request.get("NextToken") or "0"
    if not (token.isascii() and token.isdigit()):
        problem = "NextToken is invalid; pass the token of the previous page."
        raise AwsError("InvalidNextTokenException", problem)
    first = int(token)
    last = first + int(request.get("MaxResults") or _PAGE)
    more = {"NextToken": str(last)} if last < len(shown) else {}
    return ActionResult({name: shown[first:last], **more})
