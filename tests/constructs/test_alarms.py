"""Alarms are written in milliseconds and percent, and emitted in what CloudWatch holds."""

from collections.abc import Callable
from typing import Any

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
ALARMS = VALID + "[alarms]\np99_latency_ms = 100\n"


def alarms(found: Synthesised) -> list[dict[str, Any]]:
    return found.all("AWS::CloudWatch::Alarm")


def alarm(found: Synthesised, metric: str) -> dict[str, Any]:
    (one,) = [one for one in found.all("AWS::CloudWatch::Alarm") if one.get("MetricName") == metric]
    return one


def test_gpu_memory_is_percent_of_each_gpu_and_a_type_without_one_has_no_such_alarm(
    synthesise: Synthesise,
) -> None:
    text = VALID + "[alarms]\ngpu_memory_percent = 80\n"
    four = text.replace("[alarms]", "container = { tfs_processes = 4 }\n[alarms]")
    found = synthesise(four, **{"ml.c5.xlarge": "ml.g4dn.12xlarge"})
    assert alarm(found, "GPUMemoryUtilization")["Threshold"] == 80 * 4
    assert not [one for one in alarms(synthesise(text)) if "gpu" in one["AlarmName"]]


def test_every_alarm_says_when_it_can_fire_and_where_its_runbook_is(synthesise: Synthesise) -> None:
    found = synthesise(ALARMS)
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    for name in found.ids("AWS::CloudWatch::Alarm"):
        assert found.template["Resources"][name]["DependsOn"] == [endpoint]
    for one in alarms(found):
        kind = one["AlarmName"].removeprefix("ranker-").removeprefix("primary-")
        fires, _, rest = one["AlarmDescription"].partition(" First: ")
        earliest = f"{one['DatapointsToAlarm']} min after the first minute that shows it begins."
        assert fires.endswith(f"Fires at the earliest {earliest}")
        assert rest.endswith(f" Runbook: docs/runbook.md#{kind}")

    text = VALID + '[alarms]\nrunbook = "https://wiki.example.com/ranker"\n'
    said = [one["AlarmDescription"] for one in alarms(synthesise(text))]
    assert all("Runbook: https://wiki.example.com/ranker#" in one for one in said)


def test_all_instances_in_use_is_no_alarm_where_scaling_has_no_room(synthesise: Synthesise) -> None:
    scaling = "min_instances = 2\nmax_instances = 2\n[variants.primary.scaling]\n"
    found = synthesise(VALID + scaling + "max_rps_per_instance = 10\n")
    assert not [one for one in alarms(found) if "at-max" in one["AlarmName"]]


def test_every_address_is_subscribed(synthesise: Synthesise) -> None:
    text = VALID + '[alarms]\nnotify = ["a@example.com", "b@example.com"]\n'
    subscribed = [one["Endpoint"] for one in synthesise(text).all("AWS::SNS::Subscription")]
    assert subscribed == ["a@example.com", "b@example.com"]


def test_a_percentile_of_few_requests_is_judged_and_says_so(synthesise: Synthesise) -> None:
    text = VALID + "[alarms]\np50_latency_ms = 9\np90_latency_ms = 99\np99_latency_ms = 100\n"
    found = synthesise(f'{text}[rollout]\nstrategy = "canary"\ncanary_percent = 50\n')
    shown = {one["AlarmName"].removeprefix("ranker-"): one for one in alarms(found)}
    rollback = next(name for name in shown if name.startswith("rollback-primary-latency-"))
    for name, percentile, least in [
        ("primary-p50-latency", "p50", "20"),
        ("primary-p90-latency", "p90", "100"),
        ("primary-p99-latency", "p99", "1,000"),
        (rollback, "p99", "1,000"),
    ]:
        assert shown[name]["EvaluateLowSampleCountPercentile"] == "evaluate"
        said = shown[name]["AlarmDescription"]
        assert f"With fewer than {least} requests in that time {percentile} depends" in said
    assert "EvaluateLowSampleCountPercentile" not in shown["primary-5xx"]
    assert "With fewer" not in shown["primary-5xx"]["AlarmDescription"]
