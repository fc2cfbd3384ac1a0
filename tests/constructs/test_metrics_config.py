"""MetricsConfig: always written, since what SageMaker does without it depends on the day of creation."""

from collections.abc import Callable

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised
from tests.constructs.used_metrics import body

Synthesise = Callable[..., Synthesised]
GUARDED = VALID + '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
)
METRICS = (
    "[metrics]\ndetailed_observability = true\nenhanced_metrics = true\npublish_seconds = 10\n"
)
RARE = VALID + (
    "max_instances = 6\n[variants.primary.scaling]\nsteps = [{ above_rps = 150, change = 4 }]\n"
    "[metrics]\nenhanced_metrics = true\npublish_seconds = 120\n"
)
OFF = {
    "EnableDetailedObservability": False,
    "EnableEnhancedMetrics": False,
    "MetricPublishFrequencyInSeconds": 60,
}


@pytest.mark.parametrize("text", [VALID, SERVERLESS], ids=["instances", "serverless"])
def test_detailed_observability_is_off_unless_the_file_asks(
    synthesise: Synthesise, text: str
) -> None:
    assert synthesise(text).one("AWS::SageMaker::EndpointConfig")["MetricsConfig"] == OFF


def test_metrics_are_published_as_the_file_says(synthesise: Synthesise) -> None:
    found = synthesise(GUARDED + METRICS).one("AWS::SageMaker::EndpointConfig")
    assert found["MetricsConfig"] == {
        "EnableDetailedObservability": True,
        "EnableEnhancedMetrics": True,
        "MetricPublishFrequencyInSeconds": 10,
    }


@pytest.mark.parametrize(
    "line", ["detailed_observability = true", "enhanced_metrics = true", "publish_seconds = 30"]
)
def test_another_metrics_configuration_is_another_fleet_with_alarms_of_its_own(
    synthesise: Synthesise, line: str
) -> None:
    before, after = synthesise(GUARDED), synthesise(f"{GUARDED}[metrics]\n{line}\n")
    assert rollback_alarms(before).isdisjoint(rollback_alarms(after))


@pytest.mark.parametrize("part", ["ranker-primary-p99-latency", "rollback-primary-latency"])
def test_alarms_on_requests_follow_enhanced_metrics(synthesise: Synthesise, part: str) -> None:
    alarms = synthesise(GUARDED + METRICS).all("AWS::CloudWatch::Alarm")
    (found,) = [one for one in alarms if part in str(one["AlarmName"])]
    window = [found[key] for key in ("Period", "EvaluationPeriods", "DatapointsToAlarm")]
    assert window == [10, 18, 10]


def test_the_dashboard_shows_each_instance(synthesise: Synthesise) -> None:
    found = body(synthesise(GUARDED + METRICS).one("AWS::CloudWatch::Dashboard"))["widgets"]
    shown = [one["properties"] for one in found if "by instance" in str(one["properties"])]
    assert [one["metrics"][0][0]["expression"] for one in shown] == [
        'SEARCH(\'{AWS/SageMaker,EndpointName,InstanceId,VariantName} EndpointName="ranker" '
        'VariantName="primary" MetricName="ModelLatency"\', \'Average\', 60) / 1000',
        "SEARCH('{/aws/sagemaker/Endpoints,EndpointName,InstanceId,VariantName} "
        'EndpointName="ranker" VariantName="primary" MetricName="CPUUtilization"\', '
        "'Average', 60) / 4",
    ]


def test_steps_count_the_requests_of_the_period_in_which_they_are_published(
    synthesise: Synthesise,
) -> None:
    alarms = synthesise(RARE).all("AWS::CloudWatch::Alarm")
    (found,) = [one for one in alarms if one["AlarmName"].endswith("steps-out")]
    assert (found["Threshold"], found["Period"], found["EvaluationPeriods"]) == (18_000, 120, 2)


def rollback_alarms(found: Synthesised) -> set[str]:
    return {one for one in found.ids("AWS::CloudWatch::Alarm") if "Rollback" in one}
