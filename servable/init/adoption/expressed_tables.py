"""Convert what all variants share: alarms, updates, data capture, asynchronous inference, and tags."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import TypeAdapter

from infra.catalog.instances import load_instances
from infra.catalog.metrics import compute_full_percent
from infra.parameters.monitoring import UNITS, WATCHED
from infra.parameters.table import KmsKeyArn
from servable.init.adoption.live_fields import Listed, LiveFields, accepts
from servable.init.adoption.live_snapshot import STACK_TAG, Described, LiveSnapshot, is_capturing

MADE_BY_TRACKING = "TargetTracking-"
KEY_ARN: TypeAdapter[str] = TypeAdapter(KmsKeyArn)
_OWN_BUCKET = "new objects go to a bucket of the retained stack ENV/data; existing objects stay"
_OWN_TOPICS = "the stack's topics notify: asynchronous.notify_success, notify_error"
_OTHER_ALARM = (
    "no key of [alarms] creates this alarm; it stays and continues to watch its dimension"
)
_OTHER_ROLLOUT = (
    "[rollout] supports only shares in percent and whole minutes; write the table yourself"
)
_ENDPOINT_TAGS = "[tags] applies to all resources of the stack; the file has the endpoint's tags"
# (metric, statistic) -> (graph, key)
_WATCHED = {
    (metric, statistic): (graph, key)
    for graph, rows in WATCHED.items()
    for _, metric, statistic, key in rows.values()
}


def convert_alarms(
    snapshot: LiveSnapshot,
    types: Mapping[str, str | None],
    listed: Listed,
    scaling: Collection[str],
) -> dict[str, Any]:
    """Return [alarms] with the thresholds of the deployed alarms.

    `types`: variant -> its instance type. `scaling`: names of alarms that trigger scaling policies.
    """
    table: dict[str, Any] = {}
    matched: list[tuple[str, Described, str, int]] = []
    for alarm in snapshot.alarms:
        name, where = alarm["AlarmName"], f"alarm {alarm['AlarmName']}"
        if name in scaling or name.startswith(MADE_BY_TRACKING):
            continue
        key, value = _convert_threshold(alarm, types) or ("", 0.0)
        if not key:
            listed.note(where, alarm.get("MetricName"), _OTHER_ALARM, "none")
        elif table.setdefault(key, value) != value:
            reason = f"alarms.{key}, the same for all variants, is {table[key]:g} in the file"
            listed.note(where, value, reason)
        else:
            minutes = int(alarm["EvaluationPeriods"]) * int(alarm["Period"]) // 60
            matched.append((where, alarm, key, minutes))
    for composite in snapshot.composites:
        reason = "no key creates a composite alarm; it stays until an alarm in its rule is deleted"
        listed.note(f"alarm {composite['AlarmName']}", composite["AlarmRule"], reason, "none")
    windows = Counter(minutes for *_, minutes in matched)
    if windows and 1 <= (window := windows.most_common(1)[0][0]) <= 60:
        table["window_minutes"] = window
    for where, alarm, key, minutes in matched:
        if differences := _list_differences(alarm, minutes, table.get("window_minutes", 3)):
            reason = f"the alarm created by alarms.{key} differs"
            listed.note(where, "; ".join(differences), reason)
        if actions := alarm.get("AlarmActions"):
            reason = (
                f"the alarm created by alarms.{key} notifies a topic of the stack; add recipients to "
                "alarms.notify, and delete this alarm after the change"
            )
            listed.note(where, ", ".join(actions), reason)
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
    elif instance := load_instances().get(types[variant] or ""):
        factor = compute_full_percent(alarm["MetricName"], instance) / 100
    else:
        return None
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


# Strategy -> key of [rollout] -> field of the policy or its traffic routing: a size, or seconds.
_STRATEGIES = {
    "rolling": {"batch_percent": "MaximumBatchSize",
                "rollback_batch_percent": "RollbackMaximumBatchSize",
                "bake_minutes": "WaitIntervalInSeconds"},
    "all_at_once": {"bake_minutes": "TerminationWaitInSeconds"},
    "canary": {"bake_minutes": "WaitIntervalInSeconds", "canary_percent": "CanarySize"},
    "linear": {"bake_minutes": "WaitIntervalInSeconds", "step_percent": "LinearStepSize"},
}  # fmt: skip
# Absent it is 100: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_RollingUpdatePolicy.html
_ROLLING_DEFAULTS = {"RollbackMaximumBatchSize": {"Type": "CAPACITY_PERCENT", "Value": 100}}
_ROUTING_DEFAULTS = {"WaitIntervalInSeconds": 0, "TerminationWaitInSeconds": 0}


def convert_rollout(deployment: Described, listed: Listed) -> dict[str, Any] | None:
    """Return [rollout] for the LastDeploymentConfig of DescribeEndpoint.

    Returns None if no key can express it.
    """
    where = "deployment configuration"
    fields = LiveFields(where, deployment, listed)
    alarms = fields.take("AutoRollbackConfiguration.Alarms") or []
    rolling = fields.take("RollingUpdatePolicy")
    policy = rolling or fields.take("BlueGreenUpdatePolicy") or {}
    routing = policy.get("TrafficRoutingConfiguration") or {}
    given = {**(_ROLLING_DEFAULTS if rolling else _ROUTING_DEFAULTS), **policy, **routing}
    strategy = "rolling" if rolling else str(routing.get("Type")).lower()
    keys = _STRATEGIES.get(strategy, {})
    table = {key: _convert_size_or_time(given.get(field)) for key, field in keys.items()}
    for alarm in alarms:
        reason = "[rollout] creates its own rollback alarms for each configuration"
        fields.note("AutoRollbackConfiguration", alarm["AlarmName"], reason)
    fields.note_rest()
    if not table or None in table.values():
        listed.note(where, policy, _OTHER_ROLLOUT, "lost")
        return None
    for name in ("TerminationWaitInSeconds", "MaximumExecutionTimeoutInSeconds"):
        if name.startswith("Max") or policy.get(name) is not None:
            reason = "computed from bake and start times; `servable plan --adopt` shows it"
            fields.note(name, policy.get(name, "not set"), reason)
    return {"strategy": strategy, **table}


def _convert_size_or_time(value: Any) -> int | None:
    """Return the percentage of a size, or the minutes of a time in seconds; otherwise None."""
    if isinstance(value, Mapping):
        return int(value["Value"]) if value.get("Type") == "CAPACITY_PERCENT" else None
    return None if value is None or value % 60 else value // 60


def convert_storage(
    snapshot: LiveSnapshot, config: LiveFields, listed: Listed
) -> dict[str, dict[str, Any]]:
    """Return [capture] and [asynchronous] of the configuration, whose fields are `config`."""
    tables = {}
    capture = config.take("DataCaptureConfig")
    if is_capturing(snapshot.config):
        tables["capture"] = _convert_capture(capture, listed)
    elif capture is not None:
        reason = "EnableCapture is false, so nothing is captured, as without [capture]"
        listed.note("DataCaptureConfig", capture.get("DestinationS3Uri"), reason, "none")
    if (queue := config.take("AsyncInferenceConfig")) is not None:
        fields = LiveFields("asynchronous inference", queue, listed)
        most = "max_concurrent_invocations_per_instance"
        table = fields.take_keys({most: "ClientConfig.MaxConcurrentInvocationsPerInstance"})
        _take_kms_key(table, fields, "OutputConfig.KmsKeyId")
        fields.note_rest(OutputConfig=f"{_OWN_BUCKET}; {_OWN_TOPICS}")
        tables["asynchronous"] = table
    return tables


def _convert_capture(live: Described, listed: Listed) -> dict[str, Any]:
    as_text = {"CsvContentTypes": ["text/csv"],
               "JsonContentTypes": ["application/json", "application/jsonlines"]}  # fmt: skip
    known = {"EnableCapture": True, "CaptureContentTypeHeader": as_text}
    fields = LiveFields("data capture", live, listed, known)
    modes = {option["CaptureMode"] for option in fields.take("CaptureOptions") or []}
    sample = fields.take("InitialSamplingPercentage")
    table: dict[str, Any] = {
        "sample_percent": sample or 1,
        "requests": bool(modes & {"Input", "InputAndOutput"}),
        "answers": bool(modes & {"Output", "InputAndOutput"}),
    }
    if not sample:
        reason = "capture.sample_percent must be at least 1; to capture nothing, remove [capture]"
        fields.note("InitialSamplingPercentage", 0, reason)
    _take_kms_key(table, fields, "KmsKeyId")
    if live.get("CaptureContentTypeHeader") is None:
        reason = "not set, so bodies are stored in base64; the file stores CSV and JSON as text"
        fields.note("CaptureContentTypeHeader", None, reason)
    fields.note_rest(
        DestinationS3Uri=_OWN_BUCKET,
        CaptureContentTypeHeader="text/csv and JSON are stored as text",
    )
    return table


def _take_kms_key(table: dict[str, Any], fields: LiveFields, path: str) -> None:
    key = fields.take(path)
    if accepts(KEY_ARN, key):
        table["kms_key"] = key
    else:
        reason = "kms_key needs a key ARN; without one, the stack ENV/data creates a key"
        fields.note("KmsKeyId", key or "not set", reason)


def convert_tags(snapshot: LiveSnapshot, listed: Listed) -> dict[str, str]:
    own = {}
    for key, value in snapshot.tags.items():
        if key.startswith("aws:"):
            stack = ": that stack owns the endpoint and must release it before the import"
            reason = f"AWS's own tag{stack if key == STACK_TAG else ''}"
            listed.note(f"tag {key}", value, reason, "none")
        else:
            own[key] = value
    for resource, tags in snapshot.other_tags.items():
        for key, value in tags.items():
            if not key.startswith("aws:") and own.get(key) != value:
                listed.note(f"{resource}: tag {key}", value, _ENDPOINT_TAGS, "lost")
    return own
