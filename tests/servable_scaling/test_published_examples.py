"""Numbers that AWS prints in its guides, reproduced.

Sources (2026-11-22): step-scaling-policy-overview.html and target-tracking-scaling-policy-overview.html of
https://docs.aws.amazon.com/autoscaling/application/userguide/, API_PutScalingPolicy.html of its API
reference, as-using-sqs-queue.html of EC2 Auto Scaling's guide.
"""

from datetime import datetime

from servable_scaling.schedule import ActionSchedule
from tests.servable_scaling.minutes import (
    Fleet,
    Numbers,
    alarm,
    at,
    steps,
    target,
    tracked,
    tracking,
)

PERCENT = {"AdjustmentType": "PercentChangeInCapacity"}
OUT = steps((0, 10, 0), (10, 20, 10), (20, None, 30), name="out", **PERCENT)
IN = steps((-10, 0, 0), (-20, -10, -10), (None, -20, -30), name="in", **PERCENT)


def test_the_guides_four_steps_lead_from_10_over_11_and_14_and_13_back_to_10_and_between_change_nothing() -> (
    None
):
    alarms = [alarm("out"), alarm("in", above=False)]
    fleet = Fleet(10, OUT, IN, alarms=alarms)
    assert fleet.run(range(1, 5), Numbers(Use=[60, 70, 40, 30])) == {1: 11, 2: 14, 3: 13, 4: 10}
    for use in [40.1, 50, 59.9]:
        assert Fleet(10, OUT, IN, alarms=alarms).run(range(1, 5), Numbers(Use=[use])) == {}


def test_target_tracking_scales_to_the_guides_numbers() -> None:
    # 1500 messages for 10 instances with a target of 100 make 15.
    assert Fleet(10, tracking(100)).run(range(1, 4), Numbers(Use=[150])) == {3: 15}
    # Adding one and a half instances adds two.
    assert tracked(3, range(1, 4), [75]) == {3: 5}

    # Where half an instance less would exceed the target, none is removed.
    fleet = Fleet(3, tracking())
    fleet.run(range(1, 20), Numbers(Use=[50 * 2.5 / 3]))
    assert (fleet.desired, fleet.reasons) == (3, ["AutoScalingAnticipatedFlapping"])


def test_steps_scale_to_the_guides_numbers() -> None:
    # Of three more and 200 percent more the larger wins.
    few, many = steps((0, None, 3), name="few"), steps((0, None, 200), name="many", **PERCENT)
    assert Fleet(10, few, many, bounds=target(most=50)).run([1], Numbers(Use=[60])) == {1: 30}
    # A step of 3 in the cooldown of a step of 2 adds 1.
    fleet = Fleet(10, steps((0, 10, 2), (10, None, 3), Cooldown=300))
    assert fleet.run(range(1, 4), Numbers(Use=[55, 55, 65])) == {1: 12, 3: 13}

    # 25 percent of 4 with a magnitude of 2 adds 2.
    policy = steps((0, None, 25), MinAdjustmentMagnitude=2, **PERCENT)
    assert Fleet(4, policy).run([1], Numbers(Use=[60])) == {1: 6}


def test_the_guides_cron_expressions_run_when_it_says() -> None:
    cases: list[tuple[str, datetime, bool]] = [
        ("cron(30 6 ? * MON *)", datetime(2026, 11, 23, 6, 30), True),
        ("cron(30 6 ? * MON *)", datetime(2026, 11, 24, 6, 30), False),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 23, 8, 0), True),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 27, 17, 55), True),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 23, 18, 0), False),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 23, 8, 1), False),
        ("cron(0/5 8-17 ? * MON-FRI *)", datetime(2026, 11, 28, 8, 0), False),
    ]
    for expression, moment, runs in cases:
        assert ActionSchedule(expression, created=at(0)).is_due(moment) is runs
