"""Convert deployed alarms to [alarms], and a deployment configuration to [rollout]."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from infra.catalog.instances import load_instances
from infra.catalog.metrics import compute_full_percent
from infra.parameters.monitoring import UNITS, WATCHED
from servable.init.adoption.live_fields import Effect, LiveFields, NotCarried
from servable.init.adoption.live_picture import Described, LivePicture

MADE_BY_TRACKING = "TargetTracking-"
# (metric, statistic) -> (graph, key)
_WATCHED = {
    (metric, statistic): (graph, key)
    for graph, rows in WATCHED.items()
    for _, metric, statistic, key in rows.values()
}


def convert_alarms(
    picture: LivePicture,
    types: Mapping[str, str | None],
    not_carried: list[NotCarried],
    *,
    scaling: Collection[str],
) -> dict[str, Any]:
    """Return [alarms] with the thresholds of the deployed alarms.

    `types`: variant -> its instance type. `scaling`: names of alarms that trigger scaling
    policies. Alarms that can't be expressed are added to `not_carried`.
    """
    table: dict[str, Any] = {}
    windows: Counter[int] = Counter()
    matched: list[tuple[Described, str, int]] = []

    def leave(alarm: Described, value: object, reason: str, effect: Effect) -> None:
        where = f"alarm {alarm['AlarmName']}"
        not_carried.append(NotCarried(where=where, value=value, reason=reason, effect=effect))

    for alarm in picture.alarms:
        if alarm["AlarmName"] in scaling or alarm["AlarmName"].startswith(MADE_BY_TRACKING):
            continue
        replaced = _convert_threshold(alarm, types)
        if replaced is None:
            reason = (
                "no key of [alarms] creates this alarm; it stays as it is and keeps watching the endpoint "
                "of its dimension"
            )
            leave(alarm, alarm.get("MetricName"), reason, "none")
            continue
        key, value = replaced
        minutes = int(alarm["EvaluationPeriods"]) * int(alarm["Period"]) // 60
        if table.setdefault(key, value) != value:
            reason = f"alarms.{key}, the same for all variants, is {table[key]:g} in the file"
            leave(alarm, value, reason, "changed")
            continue
        windows[minutes] += 1
        matched.append((alarm, key, minutes))
    for composite in picture.composites:
        reason = (
            "no key makes a composite alarm; it stays, and goes with an alarm that its rule needs"
        )
        leave(composite, composite["AlarmRule"], reason, "none")
    window = windows.most_common(1)[0][0] if windows else 3
    if windows and 1 <= window <= 60:
        table["window_minutes"] = window
    for alarm, key, minutes in matched:
        differences = _list_differences(alarm, minutes, table.get("window_minutes", 3))
        if differences:
            leave(
                alarm, "; ".join(differences), f"the alarm of alarms.{key} differs in it", "changed"
            )
        if actions := alarm.get("AlarmActions"):
            reason = (
                f"the alarm of alarms.{key} notifies a topic of the stack: write who is to be notified "
                "into alarms.notify, and delete this alarm after the change"
            )
            leave(alarm, ", ".join(actions), reason, "changed")
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
    differences = []
    if minutes != window:
        differences.append(f"a window of {minutes} minutes, in the file {window}")
    if int(alarm["Period"]) != 60:
        differences.append(f"periods of {alarm['Period']} s, ours 60")
    if alarm.get("DatapointsToAlarm") not in (None, alarm["EvaluationPeriods"]):
        differences.append(f"{alarm['DatapointsToAlarm']} of {alarm['EvaluationPeriods']} periods")
    if alarm["ComparisonOperator"] != "GreaterThanThreshold":
        differences.append(f"{alarm['ComparisonOperator']}, ours GreaterThanThreshold")
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html: missing
    missing = alarm.get("TreatMissingData") or "missing"
    if missing != "notBreaching":
        differences.append(f"TreatMissingData {missing}, ours notBreaching")
    return differences


def convert_rollout(deployment: Described, not_carried: list[NotCarried]) -> dict[str, Any] | None:
    """Return [rollout] for a LastDeploymentConfig, or None if no key can express it.

    `deployment`: LastDeploymentConfig of DescribeEndpoint.
    """
    fields = LiveFields("deployment configuration", deployment, known={})
    alarms = fields.take("AutoRollbackConfiguration", "Alarms") or []
    rolling = fields.take("RollingUpdatePolicy")
    policy = rolling or fields.take("BlueGreenUpdatePolicy") or {}
    table = _convert_rolling(policy) if rolling else _convert_blue_green(policy)
    for alarm in alarms:
        reason = (
            "[rollout] makes alarms of its own for each configuration, which roll an update back"
        )
        where = "deployment configuration: AutoRollbackConfiguration"
        not_carried.append(
            NotCarried(where=where, value=alarm["AlarmName"], reason=reason, effect="changed")
        )
    not_carried.extend(fields.list_not_carried({}))
    if table is None:
        reason = "[rollout] has shares in percent and whole minutes; write the table by hand"
        not_carried.append(
            NotCarried(where="deployment configuration", value=policy, reason=reason, effect="lost")
        )
        return None
    for name in ("TerminationWaitInSeconds", "MaximumExecutionTimeoutInSeconds"):
        if name.startswith("Max") or policy.get(name) is not None:
            value = policy.get(name, "not set")
            reason = "computed from bake and start times; `servable plan --adopt` shows it"
            where = f"deployment configuration: {name}"
            not_carried.append(
                NotCarried(where=where, value=value, reason=reason, effect="changed")
            )
    return table


def _convert_rolling(policy: Described) -> dict[str, Any] | None:
    batch = _read_percent(policy.get("MaximumBatchSize"))
    minutes = _convert_to_minutes(policy.get("WaitIntervalInSeconds"))
    if batch is None or minutes is None:
        return None
    # Absent it is 100: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html
    back = policy.get("RollbackMaximumBatchSize")
    rollback = 100 if back is None else _read_percent(back)
    if rollback is None:
        return None
    return {
        "strategy": "rolling",
        "batch_percent": batch,
        "rollback_batch_percent": rollback,
        "bake_minutes": minutes,
    }


def _convert_blue_green(policy: Described) -> dict[str, Any] | None:
    routing = policy.get("TrafficRoutingConfiguration") or {}
    strategy = str(routing.get("Type")).lower()
    waits = "TerminationWaitInSeconds" if strategy == "all_at_once" else "WaitIntervalInSeconds"
    minutes = _convert_to_minutes((policy if strategy == "all_at_once" else routing).get(waits, 0))
    if minutes is None:
        return None
    table = {"strategy": strategy, "bake_minutes": minutes}
    if strategy == "all_at_once":
        return table
    key, size = {
        "canary": ("canary_percent", "CanarySize"),
        "linear": ("step_percent", "LinearStepSize"),
    }.get(strategy, ("", ""))
    percent = _read_percent(routing.get(size))
    return None if percent is None else {**table, key: percent}


def _read_percent(size: Described | None) -> int | None:
    if size is None or size.get("Type") != "CAPACITY_PERCENT":
        return None
    return int(size["Value"])


def _convert_to_minutes(seconds: int | None) -> int | None:
    return None if seconds is None or seconds % 60 else seconds // 60
