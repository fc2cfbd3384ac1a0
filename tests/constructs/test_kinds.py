"""Variants of every kind in the template, and absent from it when nobody asks."""

from collections.abc import Callable
from typing import Any

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

Synthesise = Callable[..., Synthesised]
CONFIG = "AWS::SageMaker::EndpointConfig"
SHADOW = VALID + (
    '[variants.copy]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\nshadow = true\nweight = 0.5\n'
)
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 9 }"
)
QUEUE = VALID + "[asynchronous]\n"


def variant(found: Synthesised) -> dict[str, Any]:
    (one,) = found.one(CONFIG)["ProductionVariants"]
    variant: dict[str, Any] = one
    return variant


def names(found: Synthesised) -> list[str]:
    return [one["AlarmName"] for one in found.all("AWS::CloudWatch::Alarm")]


def test_a_request_goes_where_the_fewest_wait_by_default(synthesise: Synthesise) -> None:
    routing = variant(synthesise())["RoutingConfig"]
    assert routing == {"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}
    routing = variant(synthesise(VALID + 'routing = "random"\n'))["RoutingConfig"]
    assert routing == {"RoutingStrategy": "RANDOM"}
    assert "RoutingConfig" not in variant(synthesise(QUEUE))


def test_what_nobody_asks_for_is_absent(synthesise: Synthesise) -> None:
    for key in ["AsyncInferenceConfig", "ShadowProductionVariants", "DataCaptureConfig"]:
        assert key not in synthesise().one(CONFIG)
    for key in ["ServerlessConfig", "EnableSSMAccess", "VolumeSizeInGB"]:
        assert key not in variant(synthesise())
    assert variant(synthesise(VALID + "ssm_access = true\n"))["EnableSSMAccess"] is True


def test_a_shadow_takes_back_no_update_and_pages_nobody(synthesise: Synthesise) -> None:
    (one,) = synthesise(SHADOW).one(CONFIG)["ShadowProductionVariants"]
    assert (one["VariantName"], one["InitialVariantWeight"]) == ("copy", 0.5)
    found = synthesise(SHADOW + '[rollout]\nstrategy = "canary"\ncanary_percent = 50\n')
    assert not [name for name in names(found) if name.startswith("ranker-rollback-copy")]
    rule = synthesise(SHADOW).one("AWS::CloudWatch::CompositeAlarm")["AlarmRule"]
    assert "copy" not in str(rule)


def test_a_serverless_variant_has_memory_and_nothing_of_instances(synthesise: Synthesise) -> None:
    found = variant(synthesise(SERVERLESS))
    assert found == {
        "VariantName": "primary",
        "ModelName": found["ModelName"],
        "InitialVariantWeight": 1,
        "ServerlessConfig": {"MaxConcurrency": 9, "MemorySizeInMB": 2048},
    }
    assert "RetainAllVariantProperties" not in synthesise(SERVERLESS).one(
        "AWS::SageMaker::Endpoint"
    )
    assert sorted(names(synthesise(SERVERLESS))) == [
        "ranker-primary-5xx",
        "ranker-primary-memory",
        "ranker-queue-refused",
    ]


def test_a_queue_answers_into_the_data_stack_and_tells_two_topics(synthesise: Synthesise) -> None:
    output = synthesise(QUEUE).one(CONFIG)["AsyncInferenceConfig"]["OutputConfig"]
    bucket = ["s3://", {"Fn::ImportValue": "prod-data-queue"}]
    assert (output["S3OutputPath"], output["S3FailurePath"]) == (
        {"Fn::Join": ["", [*bucket, "/answers"]]},
        {"Fn::Join": ["", [*bucket, "/failures"]]},
    )

    assert sorted(output["NotificationConfig"]) == ["ErrorTopic", "SuccessTopic"]
    assert "ranker-primary-overhead-latency" not in names(synthesise(QUEUE))


def test_the_age_of_the_oldest_request_breaks_the_objective(synthesise: Synthesise) -> None:
    found = synthesise(QUEUE + "[alarms]\noldest_request_minutes = 60\n")
    (alarm,) = [
        one
        for one in found.all("AWS::CloudWatch::Alarm")
        if one.get("MetricName") == "ApproximateAgeOfOldestRequest"
    ]
    assert alarm["Threshold"] == 3600

    found = synthesise(QUEUE + "[alarms]\noldest_request_minutes = 60\n")
    rule = found.one("AWS::CloudWatch::CompositeAlarm")["AlarmRule"]
    assert "queueage" in str(rule)


def test_callers_of_a_queue_may_queue_and_not_invoke(synthesise: Synthesise) -> None:
    callers = 'name = "ranker"\ncallers = ["arn:aws:iam::111111111111:role/web"]'
    policy = synthesise(QUEUE.replace('name = "ranker"', callers)).one("AWS::IAM::ManagedPolicy")
    actions = [one["Action"] for one in policy["PolicyDocument"]["Statement"]]
    assert actions == [
        "sagemaker:InvokeEndpointAsync",
        "s3:PutObject",
        "s3:GetObject",
        ["kms:Decrypt", "kms:GenerateDataKey"],
    ]


def test_one_failure_of_a_queue_is_drawn_and_fires_within_a_minute(synthesise: Synthesise) -> None:
    for name, metric in [
        ("failed-requests", "InvocationFailures"),
        ("expired-requests", "ExpiredRequests"),
        ("failed-notifications", "NotificationFailures"),
    ]:
        found = synthesise(QUEUE).all("AWS::CloudWatch::Alarm")
        (alarm,) = [one for one in found if one["AlarmName"] == f"ranker-primary-{name}"]
        asked = (
            alarm["MetricName"],
            alarm["Statistic"],
            alarm["Threshold"],
            alarm["EvaluationPeriods"],
        )
        assert asked == (metric, "Sum", 0, 1)

    body = synthesise(QUEUE).one("AWS::CloudWatch::Dashboard")["DashboardBody"]
    drawn = "".join(part for part in body["Fn::Join"][1] if isinstance(part, str))
    assert "primary: failures per minute" in drawn
    assert "alarm: requests a minute that expired in the queue above 0" in drawn

    assert not [name for name in names(synthesise()) if name.startswith("ranker-primary-failed")]
