"""CloudWatch's decision: M breaching datapoints of N, and what missing ones count as.

Pure. Source, with the tables that the tests repeat: "Configuring how CloudWatch alarms
treat missing data" and "Avoiding premature transitions to alarm state",
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html
"""

from collections.abc import Sequence
from typing import Literal

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]
Treatment = Literal["missing", "ignore", "breaching", "notBreaching"]
# More is looked at than is needed, so that a few gaps do not matter. AWS's example takes
# 5 datapoints for 3 evaluation periods and names no formula.
EXTRA_DATAPOINTS = 2


def decide(
    breaching: Sequence[bool | None], *, m: int, n: int, treatment: Treatment, now: State
) -> State:
    """The next state. `breaching` is oldest first, None where data is missing; `now` the state.

    It is the whole evaluation range: N and the extra ones.
    """
    real = [breach for breach in breaching if breach is not None]
    if not real:
        empty: dict[str, State] = {"missing": "INSUFFICIENT_DATA", "ignore": now}
        return empty.get(treatment, "ALARM" if treatment == "breaching" else "OK")
    if len(real) < n and treatment in ("missing", "ignore") and all(real):
        # All that is there breaches; premature if the oldest of the last N is as old as M.
        ages = [age for age, breach in enumerate(reversed(breaching[-n:]), start=1) if breach]
        if max(ages, default=0) >= m:
            # With `ignore` M breaching datapoints are an alarm, as wherever they are seen: inferred, AWS's
            # tables have no row of it.
            return "ALARM" if treatment == "missing" or len(real) >= m else now
    filled = max(0, n - len(real)) if treatment == "breaching" else 0
    return "ALARM" if sum(real[-n:]) + filled >= m else "OK"
