"""Convert deployed alarms to [alarms], and a deployment configuration to [rollout]."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from infra.catalog.instances import load_instances
from infra.catalog.metrics import compute_full_percent
from infra.parameters.monitoring import UNITS, WATCHED
from servable.init.adoption.live_fields import Effect, LiveFields, NotCarried
from servable.init.adoption.live_snapshot import Described, LiveSnapshot

MADE_BY_TRACKING = "TargetTracking-"
# (metric, statistic) -> (graph, key)
_WATCHED = {
    (metric, statistic): (graph, key)
    for graph, rows in WATCHED.items()
    for _, metric, statistic, key in rows.values()
}


def convert_alarms(
    snapshot: LiveSnapshot,
    types: Mapping[str, str | None],
    listed: list[NotCarried],
    *,
    scaling: Collection[str],
) -> dict[str, Any]:
    """Return [alarms] with the thresholds of the deployed alarms.

    `types`: variant -> its instance type. `listed`: gets the alarms that can't be expressed.
    `scaling`: names of alarms that trigger scaling policies.
    """
    table: dict[str, Any] = {}
    matched: list[tuple[Described, str, int]] = []

    def note(alarm: Described, value: object, reason: str, effect: Effect = "changed") -> None:
        listed.append(NotCarried(f"alarm {alarm['AlarmName']}", value, reason, effect))

    for alarm in snapshot.alarms:
        if alarm["AlarmName"] in scaling or alarm["AlarmName"].startswith(MADE_BY_TRACKING):
            continue
        replaced = _convert_threshold(alarm, types)
        if replaced is None:
            reason = (
                "no key of [alarms] creates this alarm; it stays and continues to watch its "
                "dimension"
            )
            note(alarm, alarm.get("MetricName"), reason, "none")
            continue
        key, value = replaced
        if table.setdefault(key, value) != value:
            reason = f"alarms.{key}, the same for all variants, is {table[key]:g} in the file"
            note(alarm, value, reason)
            continue
        matched.append((alarm, key, int(alarm["EvaluationPeriods"]) * int(alarm["Period"]) // 60))
    for composite in snapshot.composites:
        reason = "no key creates a composite alarm; it stays until an alarm in its rule is deleted"
        note(composite, composite["AlarmRule"], reason, "none")
    windows = Counter(minutes for _, _, minutes in matched)
    if windows and 1 <= (window := windows.most_common(1)[0][0]) <= 60:
        table["window_minutes"] = window
    for alarm, key, minutes in matched:
        if differences := _list_differences(alarm, minutes, table.get("window_minutes", 3)):
            note(alarm, "; ".join(differences), f"the alarm created by alarms.{key} differs")
        if actions := alarm.get("AlarmActions"):
            reason = (
                f"the alarm created by alarms.{key} notifies a topic of the stack; add recipients to "
                "alarms.notify, and delete this alarm after the change"
            )
            note(alarm, ", ".join(actions), reason)
    return table


def _convert_threshold(
    alarm: Described, types: Mapping[str, str | None]
) -> tuple[str, float] | None:
    """Return (key of [alarms], its value), or None if no key creates such an alarm."""
    statistic = alarm.get("Statistic") or alarm.get("ExtendedStatistic")
    found = _WATCHED.get((str(alarm.get("MetricName")), str(statistic)))
    dimensions = {each["Name"]: each["Value"] for each in alarm.get("Dimensions") or []}
    variant = dimensions.get("VariantName", "")
    above = str(alarm["ComparisonOperator"]).startswith("GreaterThan")
    if found is None or variant not in types or len(dimensions) != 2 or not above:
        return None
    graph, key = found
    if graph in UNITS:
        factor = UNITS[graph].in_the_metric
    else:
        instance = load_instances().get(types[variant] or "")
        if instance is None:
            return None
        factor = compute_full_percent(alarm["MetricName"], instance) / 100
    value = round(float(alarm["Threshold"]) / factor, 6)
    return (key, value) if value > 0 and (graph == "latency" or value < 100) else None


def _list_differences(alarm: Described, minutes: int, window: int) -> list[str]:
    """Return how an alarm differs from the one that the file creates, besides its threshold."""
    periods, points = alarm["EvaluationPeriods"], alarm.get("DatapointsToAlarm")
    operator = alarm["ComparisonOperator"]
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html: missing
    missing = alarm.get("TreatMissingData") or "missing"
    rows = (
        (minutes != window, f"a window of {minutes} minutes; in the file: {window}"),
        (int(alarm["Period"]) != 60, f"periods of {alarm['Period']} s; in the file: 60"),
        (points not in (None, periods), f"{points} of {periods} periods"),
        (operator != "GreaterThanThreshold", f"{operator}; in the file: GreaterThanThreshold"),
        (missing != "notBreaching", f"TreatMissingData {missing}; in the file: notBreaching"),
    )
    return [text for differs, text in rows if differs]


def convert_rollout(deployment: Described, listed: list[NotCarried]) -> dict[str, Any] | None:
    """Return [rollout] for the LastDeploymentConfig of DescribeEndpoint.

    Returns None if no key can express it. `listed`: gets what isn't carried over.
    """
    where = "deployment configuration"
    fields = LiveFields(where, deployment, listed)
    alarms = fields.take("AutoRollbackConfiguration", "Alarms") or []
    rolling = fields.take("RollingUpdatePolicy")
    policy = rolling or fields.take("BlueGreenUpdatePolicy") or {}
    table = _convert_rolling(policy) if rolling else _convert_blue_green(policy)
    for alarm in alarms:
        reason = "[rollout] creates its own rollback alarms for each configuration"
        fields.note("AutoRollbackConfiguration", alarm["AlarmName"], reason)
    fields.note_rest()
    if table is None:
        reason = (
            "[rollout] supports only shares in percent and whole minutes; write the table yourself"
        )
        listed.append(NotCarried(where, policy, reason, "lost"))
        return None
    for name in ("TerminationWaitInSeconds", "MaximumExecutionTimeoutInSeconds"):
        if name.startswith("Max") or policy.get(name) is not None:
            reason = "computed from bake and start times; `servable plan --adopt` shows it"
            fields.note(name, policy.get(name, "not set"), reason)
    return table


def _convert_rolling(policy: Described) -> dict[str, Any] | None:
    # Absent it is 100: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html
    back = policy.get("RollbackMaximumBatchSize")
    table = {
        "strategy": "rolling",
        "batch_percent": _read_percent(policy.get("MaximumBatchSize")),
        "rollback_batch_percent": 100 if back is None else _read_percent(back),
        "bake_minutes": _convert_to_minutes(policy.get("WaitIntervalInSeconds")),
    }
    return None if None in table.values() else table


def _convert_blue_green(policy: Described) -> dict[str, Any] | None:
    routing = policy.get("TrafficRoutingConfiguration") or {}
    strategy = str(routing.get("Type")).lower()
    if strategy == "all_at_once":
        seconds = policy.get("TerminationWaitInSeconds", 0)
        table = {"strategy": strategy, "bake_minutes": _convert_to_minutes(seconds)}
    else:
        key, size = {
            "canary": ("canary_percent", "CanarySize"),
            "linear": ("step_percent", "LinearStepSize"),
        }.get(strategy, ("", ""))
        minutes = _convert_to_minutes(routing.get("WaitIntervalInSeconds", 0))
        percent = _read_percent(routing.get(size))
        table = {"strategy": strategy, "bake_minutes": minutes, key: percent}
    return None if None in table.values() else table


def _read_percent(size: Described | None) -> int | None:
    return int(size["Value"]) if size and size.get("Type") == "CAPACITY_PERCENT" else None


def _convert_to_minutes(seconds: int | None) -> int | None:
    return None if seconds is None or seconds % 60 else seconds // 60
