# ruff: noqa: E501 (the page has lines of its own)
"""docs/scaling-rules.md: which rules of scaling AWS publishes, and what is assumed beyond them."""

from servable_scaling.choices import rows

_HEAD = """\
# Rules of scaling

The local AWS scales by the rules of Application Auto Scaling, minute by minute, in the package `servable_scaling`.
This page is for whoever asks how far its minutes can be trusted. It is written by `python scripts/generate.py`.

## Published by AWS

Each has a test against a timeline computed by hand (`tests/servable_scaling/`), and the guide's numbers come out as
printed. Read 2026-11-22:
[target tracking](https://docs.aws.amazon.com/autoscaling/application/userguide/target-tracking-scaling-policy-overview.html),
[steps](https://docs.aws.amazon.com/autoscaling/application/userguide/step-scaling-policy-overview.html),
[schedules](https://docs.aws.amazon.com/autoscaling/application/userguide/scheduled-scaling-policy-overview.html),
[activities](https://docs.aws.amazon.com/autoscaling/application/userguide/application-auto-scaling-scaling-activities.html),
[updates](https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-update.html).

- Bounds hold always; registering and schedules move the capacity inside them at once.
- A tracking policy adds in proportion to its metric, rounded up; it does not remove an instance where that would
  likely bring the metric above the target. Missing data scale neither way.
- Steps: which side of a bound belongs to which step, the three kinds of adjustment, rounding, the least magnitude.
- Several policies: out if any is ready, in only if all tracking policies with scale-in are; the largest capacity wins.
- Cooldowns are counted from success; during one a larger scale-out adds the difference; a scale-out ends the cooldown
  of a scale-in; schedules wait for none.
- Disabled scale-in, suspension, no scaling while the endpoint is updated, the reasons of what was not scaled.
- Schedules: at, rate and cron in time zones with daylight saving; StartTime runs too; after EndTime nothing is put back.

## Not published by AWS

*Observed*: seen in exported alarms and in activities of users. *Chosen*: nobody has shown it; our reading. Each is a
setting of `ScalingChoices` (`servable_scaling/choices.py`): give another value and see what depends on it.

| setting | default | | meaning |
|---|---|---|---|
"""


def markdown() -> str:
    """The page."""
    lines = [
        f"| `{name}` | {default} | {kind} | {meaning} |" for name, default, kind, meaning in rows()
    ]
    return _HEAD + "\n".join(lines) + "\n"
