"""Every alarm: metric, threshold, window, missing data, topics, description, and section of the runbook."""

import re
from collections.abc import Iterator
from typing import Any

import botocore.session
import pytest

from infra.constructs.endpoint.endpoint_logs import QUESTIONS
from infra.constructs.monitoring.first_steps import FIRST_STEPS, LONGEST_DESCRIPTION
from infra.parameters.loading import load
from servable.plan.synthesis import synthesise_endpoint
from tests.batches import build_batch_example
from tests.checkouts import ROOT
from tests.conftest import RANKER, VALID, valid
from tests.constructs.conftest import Synthesise, Synthesised, written
from tests.constructs.test_dashboard import BOARDS
from tests.servable_local.aws.everything_on import EVERYTHING, QUEUED, watching

ALARMS = VALID + "[alarms]\np99_latency_ms = 100\n"


def all_alarms(found: Synthesised) -> list[dict[str, Any]]:
    return found.all("AWS::CloudWatch::Alarm")


def test_gpu_memory_is_percent_of_each_gpu_and_a_type_without_one_has_no_such_alarm(
    synthesise: Synthesise,
) -> None:
    text = VALID + "[alarms]\ngpu_memory_percent = 80\n"
    four = text.replace("[alarms]", "container = { tfs_processes = 4 }\n[alarms]")
    found = synthesise(four, **{"ml.c5.xlarge": "ml.g4dn.12xlarge"})
    (most,) = (
        one["Threshold"]
        for one in all_alarms(found)
        if one.get("MetricName") == "GPUMemoryUtilization"
    )
    assert most == 80 * 4
    assert not [one for one in all_alarms(synthesise(text)) if "gpu" in one["AlarmName"]]


def test_every_alarm_says_when_it_can_fire_and_where_its_runbook_is(synthesise: Synthesise) -> None:
    found = synthesise(ALARMS)
    (endpoint,) = found.ids("AWS::SageMaker::Endpoint")
    for name in found.ids("AWS::CloudWatch::Alarm"):
        assert found.template["Resources"][name]["DependsOn"] == [endpoint]
    for one in all_alarms(found):
        kind = one["AlarmName"].removeprefix("ranker-").removeprefix("primary-")
        fires, _, rest = one["AlarmDescription"].partition(" First: ")
        earliest = f"{one['DatapointsToAlarm']} min after the first minute that shows it begins."
        assert fires.endswith(f"Fires at the earliest {earliest}")
        assert rest.endswith(f" Runbook: docs/runbook.md#{kind}")

    text = VALID + '[alarms]\nrunbook = "https://wiki.example.com/ranker"\n'
    said = [one["AlarmDescription"] for one in all_alarms(synthesise(text))]
    assert all("Runbook: https://wiki.example.com/ranker#" in one for one in said)


def test_all_instances_in_use_is_no_alarm_where_scaling_has_no_room(synthesise: Synthesise) -> None:
    scaling = "min_instances = 2\nmax_instances = 2\n[variants.primary.scaling]\n"
    found = synthesise(VALID + scaling + "max_rps_per_instance = 10\n")
    assert not [one for one in all_alarms(found) if "at-max" in one["AlarmName"]]


def test_every_address_is_subscribed(synthesise: Synthesise) -> None:
    text = VALID + '[alarms]\nnotify = ["a@example.com", "b@example.com"]\n'
    subscribed = [one["Endpoint"] for one in synthesise(text).all("AWS::SNS::Subscription")]
    assert subscribed == ["a@example.com", "b@example.com"]


def test_a_percentile_of_few_requests_is_judged_and_says_so(synthesise: Synthesise) -> None:
    text = VALID + "[alarms]\np50_latency_ms = 9\np90_latency_ms = 99\np99_latency_ms = 100\n"
    found = synthesise(f'{text}[rollout]\nstrategy = "canary"\ncanary_percent = 50\n')
    shown = {one["AlarmName"].removeprefix("ranker-"): one for one in all_alarms(found)}
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


ROLLED_OUT = (
    VALID
    + """min_instances = 2
max_instances = 4
scaling.max_rps_per_instance = 164
[rollout]
strategy = "canary"
canary_percent = 50
golden_requests = { body = "golden/request-rows.json" }
[alarms]
p99_latency_ms = 80
error_4xx_percent = 5
model_error_percent = 2
no_traffic_minutes = 5
notify = ["a@example.com"]
page = ["b@example.com"]
"""
)
FILES = BOARDS | {"rollout": ROLLED_OUT}
OPERATORS = {
    "GreaterThanThreshold": ">",
    "LessThanThreshold": "<",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanOrEqualToThreshold": "<=",
}


def flat(value: Any) -> str:
    """Return a property as text; the logical id of a resource without CDK's hash."""
    if not isinstance(value, dict):
        return str(value)
    ((function, argument),) = value.items()
    if function == "Fn::Join":
        return "".join(map(flat, argument[1]))
    return f"<{argument[0] if isinstance(argument, list) else argument}"[:-8] + ">"


def metric_of(metric: dict[str, Any], statistic: str, period: int) -> str:
    of = ", ".join(f"{each['Name']} {flat(each['Value'])}" for each in metric.get("Dimensions", ()))
    return f"{metric['Namespace']} {metric['MetricName']} {statistic} of {of} in {period} s"


def described(alarm: dict[str, Any], short: str) -> Iterator[str]:
    """Return the lines of an alarm. `short` is the fingerprint in the names of rollback alarms."""
    yield flat(alarm["AlarmName"]).replace(short, "FINGERPRINT")
    if "AlarmRule" in alarm:
        yield f"  {flat(alarm['AlarmRule'])}"
    else:
        yield (
            f"  {OPERATORS[alarm['ComparisonOperator']]} {alarm['Threshold']:g} in "
            f"{alarm['DatapointsToAlarm']} of {alarm['EvaluationPeriods']}, {alarm['TreatMissingData']}"
        )
    if "MetricName" in alarm:
        extended = alarm.get("ExtendedStatistic")
        assert alarm.get("EvaluateLowSampleCountPercentile") == (extended and "evaluate")
        yield f"  {metric_of(alarm, extended or alarm['Statistic'], alarm['Period'])}"
    for query in alarm.get("Metrics", ()):
        if "Expression" in query:
            assert query["ReturnData"] is True
            yield f"  {query['Expression']}"
            continue
        assert query["ReturnData"] is False
        stat = query["MetricStat"]
        yield f"    {query['Id']} = {metric_of(stat['Metric'], stat['Stat'], stat['Period'])}"
    if "rollback" in alarm["AlarmName"]:
        # An error that is compared with the old fleet's is said so.
        compared = "(requests - new_requests)" in str(alarm.get("Metrics"))
        assert ("the old fleet's percentage by more than" in alarm["AlarmDescription"]) is compared
    assert alarm.get("AlarmActions") == alarm.get("OKActions")
    yield f"  to {', '.join(map(flat, alarm.get('AlarmActions', ['SageMaker'])))}"


@pytest.mark.parametrize("name", FILES)
def test_every_alarm_fires_as_written_down(synthesise: Synthesise, name: str) -> None:
    found = synthesise(FILES[name])
    alarms = [*found.all("AWS::CloudWatch::Alarm"), *found.all("AWS::CloudWatch::CompositeAlarm")]
    names = [flat(alarm["AlarmName"]) for alarm in alarms]
    short = next((each[-8:] for each in names if "rollback" in each), "none")
    blocks = sorted(list(described(alarm, short)) for alarm in alarms)
    assert [line for block in blocks for line in block] == written("alarm_conditions.txt", name)


RUNBOOK = (RANKER.parents[2] / "docs" / "runbook.md").read_text()
SECTIONS = set(re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE))


def test_each_alarm_has_a_section_and_first_step(tmp_path_factory: pytest.TempPathFactory) -> None:
    batch = f"{build_batch_example(schedule='rate(1 day)')}\n{VALID}"
    found = [watching(tmp_path_factory.mktemp("w"), text) for text in (EVERYTHING, QUEUED, batch)]
    updates = {loaded.name: loaded for loaded in load(ROOT, ROOT / "examples" / "updates")}
    found.append(synthesise_endpoint(valid(updates["canary"])))  # with golden requests
    resources = [resource for each in found for resource in each["Resources"].values()]
    told = [each["Properties"] for each in resources if each["Type"].endswith("Alarm")]
    named = {alarm["AlarmDescription"].rpartition("#")[2] for alarm in told}
    assert named == SECTIONS
    assert [one for one in told if "First: " not in one["AlarmDescription"]] == []
    assert set(FIRST_STEPS) == SECTIONS
    of_endpoint = {one for one in SECTIONS if not re.match("batch-|golden|objective|rollback", one)}
    page = (ROOT / "docs/observing.md").read_text()
    assert of_endpoint <= set(re.findall(r"`([\w-]+)`", page))

    # With the longest names of an endpoint and a variant, and the longest address.
    spare = 63 - len("everything") + 3 * 63 + 200
    length = max(len(one["AlarmDescription"]) for one in told)
    model = botocore.session.get_session().get_service_model("cloudwatch")
    described = model.operation_model("PutMetricAlarm").input_shape.members["AlarmDescription"]
    assert length + spare <= described.metadata["max"] == LONGEST_DESCRIPTION


def test_every_saved_question_is_there_and_used() -> None:
    text = " ".join(RUNBOOK.split())
    quoted = set(re.findall(r'"([a-z][^"\n]+)"', text))
    assert quoted - {"during an update, by configuration"} <= set(QUESTIONS)
    assert [question for question in QUESTIONS if question not in text] == []
