"""MetricsConfig: always written, since what SageMaker does without it depends on the day of creation."""

from collections.abc import Callable

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
GUARDED = VALID + '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
)
METRICS = (
    "[metrics]\ndetailed_observability = true\nenhanced_metrics = true\npublish_seconds = 10\n"
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
    found = synthesise(VALID + METRICS).one("AWS::SageMaker::EndpointConfig")
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


def rollback_alarms(found: Synthesised) -> set[str]:
    return {one for one in found.ids("AWS::CloudWatch::Alarm") if "Rollback" in one}
