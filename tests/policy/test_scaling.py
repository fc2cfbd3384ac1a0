"""Targets and periods of Application Auto Scaling, from measurements and from its documentation."""

from infra.policy.derived_settings import (
    STEP_MINUTES_ABOVE,
    STEP_MINUTES_BELOW,
    compute_target_invocations,
)


def test_the_target_is_the_measured_rate_times_safety_times_sixty() -> None:
    target = compute_target_invocations(max_rps_per_instance=164, safety_factor=0.5)
    assert target == 4920


# https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-target-tracking.html
def test_steps_add_after_three_minutes_and_remove_after_fifteen_as_target_tracking_does() -> None:
    assert (STEP_MINUTES_ABOVE, STEP_MINUTES_BELOW) == (3, 15)
