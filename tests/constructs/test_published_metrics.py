"""Whatever is switched on, nothing uses a metric, statistic, unit or dimension nobody publishes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, assume, given, settings

from infra.catalog.limits import load_table
from infra.catalog.metrics import OWN, UnpublishedMetricError, check_metric, find_unit
from infra.constructs.monitoring.signals import Signal, list_variant_signals
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, WatchedVariant
from infra.parameters.monitoring import Alarms, Metrics, PublishIntervals
from infra.policy.hosting import ASYNCHRONOUS, REAL_TIME, SERVERLESS, EndpointKind
from infra.preflight.check import check, select_errors
from tests.api_calls import calls, problems
from tests.capabilities import environments
from tests.conftest import Environment, valid
from tests.constructs.conftest import Synthesise, Synthesised
from tests.constructs.test_alarms import FILES
from tests.constructs.test_dashboard import widgets
from tests.presets import synthesised

_SEARCH = re.compile(
    r"SEARCH\('\{([^,]+),([^}]+)\} .*MetricName=\"(\w+)\"', "
    r"'(\w+)', 60\)"
)


@dataclass(frozen=True)
class Used:
    namespace: str
    name: str
    statistic: str
    dimensions: tuple[str, ...]
    unit: str | None
    where: str


def in_alarms(alarms: list[dict[str, Any]]) -> Iterator[Used]:
    for alarm in alarms:
        where = str(alarm["AlarmName"])
        if "MetricName" in alarm:
            statistic = alarm.get("Statistic") or alarm["ExtendedStatistic"]
            yield _used(alarm, statistic, alarm.get("Unit"), where)
        for metric in alarm.get("Metrics", []):
            if "MetricStat" in metric:
                asked = metric["MetricStat"]
                yield _used(asked["Metric"], asked["Stat"], asked.get("Unit"), where)


def _used(metric: Mapping[str, Any], statistic: str, unit: str | None, where: str) -> Used:
    names = tuple(dimension["Name"] for dimension in metric.get("Dimensions", []))
    return Used(metric["Namespace"], metric["MetricName"], statistic, names, unit, where)


def on_dashboard(found: Synthesised) -> Iterator[Used]:
    for widget in widgets(found):
        for entry in widget["properties"].get("metrics", []):
            yield from _drawn(entry, str(widget["properties"].get("title")))


def _drawn(entry: list[Any], where: str) -> Iterator[Used]:
    options = entry[-1] if isinstance(entry[-1], dict) else {}
    if "expression" in options:
        for found in _SEARCH.finditer(options["expression"]):
            namespace, dimensions, name, statistic = found.groups()
            yield Used(namespace, name, statistic, tuple(dimensions.split(",")), None, where)
        return
    namespace, name, *pairs = [one for one in entry if isinstance(one, str)]
    statistic = options.get("stat", "Average")  # CloudWatch's own
    yield Used(namespace, name, statistic, tuple(pairs[::2]), options.get("unit"), where)


def tracking(policies: list[dict[str, Any]], specification: str) -> Iterator[dict[str, Any]]:
    """Metrics of target tracking: predefined, or customized."""
    for policy in policies:
        one = policy.get("TargetTrackingScalingPolicyConfiguration", {})
        if asked := one.get(f"{specification}MetricSpecification"):
            yield asked


# Metrics of golden requests, batches and components are in no table of endpoints' metrics.
GOLDEN = 'golden_requests = { body = "golden/request-rows.json" }\n'
KINDS = {
    FILES["rollout"].replace(GOLDEN, ""): "real_time",
    FILES["pools"]: "real_time",
    FILES["queue"]: "asynchronous",
    FILES["serverless"]: "serverless",
}


@pytest.mark.long
@pytest.mark.parametrize("text", KINDS, ids=["rollout", "pools", "queue", "serverless"])
def test_nothing_looks_at_what_nobody_publishes(synthesise: Synthesise, text: str) -> None:
    looks_at_what_is_published(synthesise(text), KINDS[text])


def looks_at_what_is_published(found: Synthesised, kind: str) -> None:
    counted = {
        (one["MetricNamespace"], one["MetricName"])
        for each in found.all("AWS::Logs::MetricFilter")
        for one in each["MetricTransformations"]
    }
    for one in (*in_alarms(found.all("AWS::CloudWatch::Alarm")), *on_dashboard(found)):
        check_metric(one.namespace, one.name, one.statistic, one.dimensions, kind)
        assert one.unit in (None, find_unit(one.name)), one
        assert not one.namespace.startswith(OWN) or (one.namespace, one.name) in counted, one
    policies = found.all("AWS::ApplicationAutoScaling::ScalingPolicy")
    predefined = {one["PredefinedMetricType"] for one in tracking(policies, "Predefined")}
    assert predefined <= set(load_table("metrics")["scaling_kinds"][kind])
    for asked in tracking(policies, "Customized"):
        one = _used(asked, asked["Statistic"], asked.get("Unit"), "scaling")
        check_metric(one.namespace, one.name, one.statistic, one.dimensions, kind)


BOTH = ("EndpointName", "VariantName")


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "statistic", "dimensions"),
    [
        ("asynchronous", "AWS/SageMaker", "Invocations", "Sum", BOTH),
        ("asynchronous", "AWS/SageMaker", "OverheadLatency", "Average", BOTH),
        ("asynchronous", "AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", BOTH),
        ("real_time", "AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", BOTH[:1]),
        ("serverless", "AWS/SageMaker", "InvocationsPerInstance", "Sum", BOTH),
        (None, "AWS/SageMaker", "OverheadLatency", "p99", BOTH),
        (None, "AWS/SageMaker", "ModelLatency", "p99", BOTH[:1]),
        (None, "AWS/SageMaker", "CPUUtilization", "Average", BOTH),
        (None, "/aws/sagemaker/Endpoints", "ModelLatency", "Average", BOTH),
        (None, "AWS/SageMaker", "Invocations", "Average", BOTH),
        (None, "AWS/Sagemaker", "Invocations", "Sum", BOTH),
        (None, "AWS/SageMaker", "ApproximateBacklogSizePerInstance", "Average", BOTH[:1]),
    ],
)
def test_what_nobody_or_the_kind_does_not_publish_is_refused(
    kind: str | None, namespace: str, name: str, statistic: str, dimensions: tuple[str, ...]
) -> None:
    with pytest.raises(UnpublishedMetricError):
        check_metric(namespace, name, statistic, dimensions, *filter(None, [kind]))


UNHURRIED = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture]


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(max_examples=20, deadline=None, suppress_health_check=UNHURRIED)
@given(environments())
def test_what_rules_accept_is_synthesised(environment: Environment, values: dict[str, Any]) -> None:
    """Any combination of capabilities, to calls that AWS takes."""
    found = environment(tomlkit.dumps(values))
    assume(select_errors(check(found)) == [])
    stacks = synthesised(valid(found))
    asked = [call for one in stacks.values() for call in calls(one)]
    assert [said for call in asked for said in problems(call)] == []
    kind = valid(found).environment.kind.name
    looks_at_what_is_published(Synthesised(stacks["endpoint"]), kind)


ALARMS = Alarms(p99_latency_ms=100, no_traffic_minutes=5)


def published(kind: EndpointKind = REAL_TIME, *, enhanced: bool, seconds: int) -> PublishIntervals:
    table = {"enhanced_metrics": enhanced, "publish_seconds": seconds}
    return Metrics.model_validate(table).find_intervals(kind)


def signals(enhanced: bool, seconds: int, alarms: Alarms = ALARMS) -> Mapping[str, Signal]:
    variant = WatchedVariant(name="primary", instance_type="ml.g5.xlarge")
    endpoint = WatchedEndpoint(
        name="ranker",
        region="eu-west-1",
        variants=(variant,),
        published=published(enhanced=enhanced, seconds=seconds),
    )
    return {one.name: one for one in list_variant_signals(endpoint, variant, alarms)}


@pytest.mark.parametrize(
    ("name", "enhanced", "seconds", "period"),
    [
        ("primary-p99-latency", True, 10, 10),
        ("primary-p99-latency", True, 30, 30),
        ("primary-p99-latency", True, 300, 300),
        ("primary-p99-latency", False, 10, 60),
        ("primary-cpu", False, 10, 10),
        ("primary-cpu", False, 300, 300),
        ("primary-no-traffic", True, 10, 60),
        ("primary-no-traffic", True, 300, 300),
    ],
)
def test_an_alarm_has_the_period_in_which_its_metric_is_published(
    name: str, enhanced: bool, seconds: int, period: int
) -> None:
    assert signals(enhanced, seconds)[name].period_seconds == period


def test_a_window_of_minutes_is_as_many_whole_periods() -> None:
    for seconds, window, expected in [
        (10, 3, (18, 10)),
        (30, 3, (6, 4)),
        (30, 1, (2, 2)),
        (60, 3, (3, 3)),
        (120, 3, (2, 2)),
        (300, 3, (1, 1)),
    ]:
        alarms = Alarms(p99_latency_ms=100, window_minutes=window)
        signal = signals(True, seconds, alarms)["primary-p99-latency"]
        assert (signal.periods, signal.breaching_periods) == expected
    for seconds, minutes in [(10, 3), (60, 3), (120, 4), (240, 4)]:
        assert published(enhanced=True, seconds=seconds).round_up_window(3) == minutes


def test_the_earliest_alarm_and_its_window_are_said() -> None:
    for seconds, words, window in [
        (10, "100 s after the first 10 s that show it begin", "in 10 of 18 periods of 10 s"),
        (60, "3 min after the first minute that shows it begins", "for 3 minutes in a row"),
        (120, "4 min after the first 120 s that show it begin", "for 4 minutes in a row"),
        (300, "5 min after the first 300 s that show it begin", "for 5 minutes in a row"),
    ]:
        signal = signals(True, seconds)["primary-p99-latency"]
        assert signal.earliest_alarm_note == f"Fires at the earliest {words}. "
        assert signal.window == window


def test_enhanced_metrics_are_those_of_real_time_endpoints() -> None:
    each = PublishIntervals(requests_seconds=10, utilization_seconds=10, by_instance=True)
    queued = PublishIntervals(utilization_seconds=10)
    for kind, expected in [
        (REAL_TIME, each),
        (ASYNCHRONOUS, queued),
        (SERVERLESS, PublishIntervals()),
    ]:
        assert published(kind, enhanced=True, seconds=10) == expected
