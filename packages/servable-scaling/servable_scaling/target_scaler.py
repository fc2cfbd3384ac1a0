"""One scalable target: what its policies and schedules do, minute by minute. Pure.

The order within a minute: running changes are checked, schedules run, then policies whose alarms
act. Sources (2026-11-22): the pages named in scaling_policies.py and scalable_target.py;
https://docs.aws.amazon.com/autoscaling/application/APIReference/API_RegisterScalableTarget.html,
https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html (no scaling while updating).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from servable_scaling.scalable_target import (
    COPIES,
    ReasonCode,
    ScaledTarget,
    ScalingActivity,
    ScalingPolicy,
    ScheduledAction,
    StepScaling,
    SuspendedState,
    TargetTracking,
    format_cause,
)
from servable_scaling.scaling_policies import (
    aggregate_datapoints,
    compute_adjusted_capacity,
    compute_scale_in_capacity,
    compute_scale_out_capacity,
    find_step,
)
from servable_scaling.schedule import ActionSchedule

_UNSCALABLE = (
    "The endpoint is being updated; auto scaling is blocked while the update is in progress."
)


@dataclass(frozen=True)
class ScaledResource:
    """The capacity of a scalable target, as its service reports it now.

    `desired` and `current` are counts; instances that start are only in `desired`. `updating`: it
    cannot be scaled now. `failure`: why the last change was not fulfilled, if so.
    """

    desired: int
    current: int
    updating: bool = False
    failure: str | None = None


@dataclass(frozen=True)
class Breach:
    """An alarm that acts now: its policy's key, its newest datapoints (oldest first), its threshold.

    `upward`: the alarm's comparison is "greater than".
    """

    policy: str
    alarm: str
    datapoints: Sequence[float]
    threshold: float
    upward: bool


@dataclass
class Decision:
    """The result at one point in time. `desired`: the capacity to set now, None to leave it."""

    at: datetime
    resource: ScaledResource
    desired: int | None = None
    activities: list[ScalingActivity] = field(default_factory=list)


@dataclass(frozen=True)
class _Cooldown:
    """The cooldown of a scale-out: its end, the capacity before it, and what it wanted from `origin`."""

    until: datetime
    before: int
    origin: int
    wanted: int


@dataclass(frozen=True)
class _Proposal:
    policy: ScalingPolicy
    breach: Breach
    capacity: int
    origin: int
    """The capacity from which the proposed one is computed."""
    flapping: bool = False

    @property
    def cause(self) -> str:
        return format_cause(self.breach.alarm, self.policy.name)


class TargetScaler:
    """The policies, schedules, cooldowns and activities of a target. `created`: naive UTC."""

    def __init__(
        self,
        target: ScaledTarget,
        *,
        created: datetime,
        policies: Mapping[str, ScalingPolicy] = {},
        actions: Sequence[ScheduledAction] = (),
    ) -> None:
        """Create the scaler of a target. Raises `ScheduleError` for a schedule that cannot be read."""
        self.target = target
        # By what alarms name in their actions: a policy's ARN, or its logical id.
        self.policies = dict(policies)
        self.actions: dict[str, tuple[ScheduledAction, ActionSchedule]] = {}
        self.activities: list[ScalingActivity] = []
        self._running: ScalingActivity | None = None
        self._running_policy: ScalingPolicy | None = None
        self._before = 0
        self._wanted = (0, 0)
        # Chosen: one policy's scale-out cooldown does not hold back the others of its target.
        self._out: dict[str, _Cooldown] = {}
        self._in_until: datetime | None = None
        # Registering moves the capacity inside the bounds, as soon as it can be moved.
        self._enforce = True
        self._unscaled: tuple[str, ReasonCode] | None = None
        for action in actions:
            self.put_action(action, created)

    def put_action(self, action: ScheduledAction, at: datetime) -> None:
        """Add or replace a scheduled action. Raises `ScheduleError`, ZoneInfoNotFoundError."""
        schedule = ActionSchedule(
            action.schedule,
            time_zone=action.time_zone,
            start=action.start,
            end=action.end,
            created=at,
        )
        self.actions[action.name] = (action, schedule)

    def register(
        self, minimum: int | None, maximum: int | None, suspended: SuspendedState | None
    ) -> None:
        """Register the target again, to move it inside its bounds soon; None keeps a value."""
        self.target = self.target.replace_bounds(minimum, maximum)
        if suspended is not None:
            self.target = replace(self.target, suspended=suspended)
        self._enforce = True

    def advance(
        self, at: datetime, resource: ScaledResource, breaches: Sequence[Breach] = ()
    ) -> Decision:
        """Simulate the minute (or 10 s) that begins at `at`, and return what to do and report."""
        decision = Decision(at, resource)
        self._follow_up(at, resource)
        if at.second == 0 and not self.target.suspended.scheduled:
            self._run_schedules(decision)
        if self._enforce and decision.desired is None and not resource.updating:
            self._move_inside_bounds(decision)
        if decision.desired is None:
            self._scale(decision, breaches)
        return decision

    def move_inside_bounds(self, at: datetime, resource: ScaledResource) -> Decision:
        """Move the capacity inside the registered bounds, if the resource can be scaled now."""
        decision = Decision(at, resource)
        self._follow_up(at, resource)
        if self._enforce and not resource.updating:
            self._move_inside_bounds(decision)
        return decision

    # --- what was begun

    def _follow_up(self, at: datetime, resource: ScaledResource) -> None:
        running = self._running
        if running is None:
            return
        if resource.failure is not None:
            self.record_failure(running, at, resource.failure)
        elif resource.desired != running.desired:
            running.mark_overridden(at)
            self._running = None
        elif resource.current == resource.desired and not resource.updating:
            running.succeed(at)
            self._running = None
            self._start_cooldown(at, resource.desired)

    def _start_cooldown(self, until: datetime, reached: int) -> None:
        """Start the cooldown of the running change.

        It counts from `until`, when the change succeeds. Before that, `datetime.max` makes it
        hold without an end.
        """
        if (policy := self._running_policy) is None:
            return
        inward = reached < self._before
        if until != datetime.max:
            seconds = policy.in_cooldown_seconds if inward else policy.out_cooldown_seconds
            until += timedelta(seconds=seconds)
        if inward:
            self._in_until = until
        else:
            self._out[policy.name] = _Cooldown(until, self._before, *self._wanted)

    # --- schedules and bounds

    def _run_schedules(self, decision: Decision) -> None:
        at, updating = decision.at, decision.resource.updating
        for action, schedule in list(self.actions.values()):
            if not schedule.is_due(at):
                continue
            bounds = self.target.replace_bounds(action.minimum, action.maximum)
            text = f"min capacity to {bounds.minimum} and max capacity to {bounds.maximum}"
            cause = f"scheduled action name {action.name} was triggered"
            activity = self._record_activity(
                decision, cause, f"Setting {text}", "Successful", f"Successfully set {text}"
            )
            if updating or bounds.minimum > bounds.maximum:
                activity.status, activity.ended = "Failed", at
                crossed = "Maximum capacity cannot be less than minimum capacity"
                activity.message = _UNSCALABLE if updating else crossed
                # Chosen: a scheduled action that fails while the endpoint updates leaves the bounds.
                continue
            self.target = bounds
            self._enforce = True

    def _move_inside_bounds(self, decision: Decision) -> None:
        self._enforce = False
        desired = decision.resource.desired
        capacity = self.target.clamp(desired)
        if capacity != desired:
            side = "minimum" if capacity > desired else "maximum"
            self._begin_change(decision, capacity, f"{side} capacity was set to {capacity}", None)

    # --- policies

    def _scale(self, decision: Decision, breaches: Sequence[Breach]) -> None:
        breaches = [breach for breach in breaches if breach.policy in self.policies]
        at, resource = decision.at, decision.resource
        if not breaches:
            if at.second == 0:  # in between, alarms that act once a minute are silent
                self._unscaled = None
            return
        if resource.updating:
            self._record_unscaled(decision, breaches[0], "TargetServicePutResourceAsUnscalable")
            return
        proposals = [
            proposal
            for each in breaches
            if (proposal := self._build_proposal(at, self.policies[each.policy], each, resource))
        ]
        suspended = self.target.suspended
        outward = [proposal for proposal in proposals if proposal.capacity > resource.desired]
        inward = self._select_inward(proposals, resource.desired)
        same = [proposal for proposal in proposals if proposal.capacity == resource.desired]
        if outward:
            if not suspended.scaling_out:
                self._scale_out(decision, max(outward, key=lambda proposal: proposal.capacity))
        elif inward:
            if not suspended.scaling_in and not (self._in_until and at < self._in_until):
                self._scale_in(decision, max(inward, key=lambda proposal: proposal.capacity))
        elif same:
            self._record_unscaled(decision, same[0].breach, "AlreadyAtDesiredCapacity")

    def _build_proposal(
        self, at: datetime, policy: ScalingPolicy, breach: Breach, resource: ScaledResource
    ) -> _Proposal | None:
        """Return the capacity that one policy proposes, or None if it proposes no change."""
        if not breach.datapoints:
            return None
        desired = resource.desired
        capacity = self._compute_capacity(policy, breach, desired)
        if capacity is None:
            return None
        cooldown, origin = self._out.get(policy.name), desired
        if capacity > desired and cooldown is not None and at < cooldown.until:
            # In a cooldown only a larger scale-out counts, and includes what the newest scale-out, which
            # began this cooldown, added.
            larger = self._compute_capacity(policy, breach, cooldown.origin)
            if larger is None or larger <= cooldown.wanted:
                return None
            origin = cooldown.before
            capacity = self._compute_capacity(policy, breach, origin)
            if capacity is None or capacity <= desired:
                return None
        tracks_in = isinstance(policy, TargetTracking) and not breach.upward
        return _Proposal(
            policy, breach, capacity, origin, flapping=tracks_in and capacity == desired
        )

    def _compute_capacity(self, policy: ScalingPolicy, breach: Breach, capacity: int) -> int | None:
        """Return the capacity that a policy computes from `capacity`, or None."""
        if isinstance(policy, TargetTracking):
            if breach.upward and not capacity and self.target.dimension == COPIES:
                # "You must use step scaling if you want to enable an endpoint to scale out from zero":
                # https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-auto-scaling-policy.html
                # (2026-11-28). The alarm may still see minutes of the last copy.
                return None
            compute = compute_scale_out_capacity if breach.upward else compute_scale_in_capacity
            # Chosen: a tracking policy compares its metric's newest datapoint with its target.
            return compute(policy, breach.datapoints[-1], capacity)
        metric = aggregate_datapoints(policy, breach.datapoints)
        step = find_step(policy, metric, breach.threshold, upward=breach.upward)
        return None if step is None else compute_adjusted_capacity(policy, step, capacity)

    def _select_inward(self, proposals: Sequence[_Proposal], desired: int) -> list[_Proposal]:
        """Return the proposals that scale in: steps at once, tracking if all its policies are ready."""
        tracking = [each for each in self.policies.values() if isinstance(each, TargetTracking)]
        expected = {policy.name for policy in tracking if policy.scales_in}
        low, steps = [], []
        for proposal in proposals:
            if isinstance(proposal.policy, StepScaling):
                steps += [proposal] if proposal.capacity < desired else []
            elif proposal.policy.scales_in and not proposal.breach.upward:
                low.append(proposal)
        return steps + (low if expected == {proposal.policy.name for proposal in low} else [])

    def _scale_out(self, decision: Decision, proposal: _Proposal) -> None:
        capacity = self.target.clamp(proposal.capacity)
        if capacity <= decision.resource.desired:
            self._record_unscaled(decision, proposal.breach, "AlreadyAtMaxCapacity")
            return
        self._in_until = None  # a scale-out ends the cooldown of a scale-in
        self._wanted = (proposal.origin, proposal.capacity)
        self._begin_change(decision, capacity, proposal.cause, proposal.policy)

    def _scale_in(self, decision: Decision, proposal: _Proposal) -> None:
        capacity, desired = self.target.clamp(proposal.capacity), decision.resource.desired
        if desired <= self.target.minimum:
            self._record_unscaled(decision, proposal.breach, "AlreadyAtMinCapacity")
        elif proposal.flapping:
            self._record_unscaled(decision, proposal.breach, "AutoScalingAnticipatedFlapping")
        elif capacity < desired:
            self._begin_change(decision, capacity, proposal.cause, proposal.policy)

    # --- activities

    def _begin_change(
        self, decision: Decision, desired: int, cause: str, policy: ScalingPolicy | None
    ) -> None:
        at, before = decision.at, decision.resource.desired
        if self._running is not None:
            self._running.mark_overridden(at)
        change = f"{self.target.noun} to {desired}"
        activity = self._record_activity(
            decision,
            cause,
            f"Setting {change}.",
            message=f"Successfully set {change}. Waiting for change to be fulfilled by "
            f"{self.target.service}.",
            desired=desired,
        )
        self._running, self._running_policy, self._before = activity, policy, before
        self._start_cooldown(datetime.max, desired)
        self._unscaled = None
        decision.desired = desired

    def _record_unscaled(self, decision: Decision, breach: Breach, code: ReasonCode) -> None:
        """Record an activity that did not scale; of equal ones in a row only the first."""
        cause = format_cause(breach.alarm, self.policies[breach.policy].name)
        if self._unscaled == (cause, code):
            return
        self._unscaled = (cause, code)
        details = {
            "AlreadyAtMaxCapacity": {"MaxCapacity": self.target.maximum},
            "AlreadyAtMinCapacity": {"MinCapacity": self.target.minimum},
            "AlreadyAtDesiredCapacity": {"CurrentCapacity": decision.resource.desired},
        }
        self._record_activity(
            decision,
            cause,
            "Attempting to scale due to alarm triggered",
            "Failed",
            not_scaled={"Code": code, **details.get(code, {})},
        )

    def record_failure(self, activity: ScalingActivity, at: datetime, reason: str) -> None:
        """Record that the service did not accept, or did not fulfill, an activity's change."""
        activity.fail(at, reason)
        if self._running is activity:
            if self._running_policy is not None:
                self._out.pop(self._running_policy.name, None)
            self._in_until = self._running = None

    def _record_activity(
        self, decision: Decision, cause: str, description: str, *status: Any, **more: Any
    ) -> ScalingActivity:
        """Record an activity; `status` and `more` are fields of `ScalingActivity`."""
        number = len(self.activities)
        activity = ScalingActivity(
            self.target, number, cause, description, decision.at, *status, **more
        )
        self.activities.append(activity)
        decision.activities.append(activity)
        return activity
