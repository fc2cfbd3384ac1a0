"""CloudWatch in CBOR, as newer SDKs ask it: botocore's own client, told to speak nothing else."""

from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from tests.servable_local.aws.local_account import Account


@pytest.fixture
def cloudwatch(account: Account, monkeypatch: pytest.MonkeyPatch) -> Any:
    session = Session()
    loader = session.get_component("data_loader")
    read = loader.load_service_model

    def in_cbor(service: str, kind: str, *more: Any, **named: Any) -> Any:
        model = read(service, kind, *more, **named)
        if kind != "service-2":
            return model
        return model | {"metadata": model["metadata"] | {"protocols": ["smithy-rpc-v2-cbor"]}}

    monkeypatch.setattr(loader, "load_service_model", in_cbor)
    return session.create_client(
        "cloudwatch",
        region_name="us-east-1",
        endpoint_url=account.aws.url,
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
        aws_access_key_id=account.number,
        aws_secret_access_key=account.aws.secret_access_key,
    )


def test_an_alarm_that_is_put_in_cbor_is_there(cloudwatch: Any, account: Account) -> None:
    cloudwatch.put_metric_alarm(
        AlarmName="<",
        **{"Namespace": "N", "MetricName": "m", "Statistic": "Sum", "Period": 60},
        **{"EvaluationPeriods": 1, "Threshold": 1.5},
        ComparisonOperator="GreaterThanThreshold",
    )
    (in_cbor,) = cloudwatch.describe_alarms()["MetricAlarms"]
    (in_json,) = account.client("cloudwatch").describe_alarms()["MetricAlarms"]
    assert in_cbor == in_json


def test_a_refusal_is_in_cbor(cloudwatch: Any) -> None:
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        cloudwatch.put_metric_data(Namespace="AWS/N", MetricData=[{"MetricName": "m", "Value": 1}])
    with pytest.raises(ClientError, match="PutAnomalyDetector"):
        cloudwatch.put_anomaly_detector()

    # Recorded from AWS on 2025-09-22, of JSON and of CBOR: aws_answers.py says where.
    answers: list[Any] = []
    cloudwatch.meta.events.register(
        "before-parse.cloudwatch.SetAlarmState",
        lambda response_dict, **_: answers.append(response_dict),
    )
    with pytest.raises(ClientError):
        cloudwatch.set_alarm_state(AlarmName="none", StateValue="OK", StateReason="r")
    assert answers[0]["body"] == (
        b"\xa1" + b"\x66__type" + b"\x78\x35com.amazonaws.cloudwatch.v2010_08_01#ResourceNotFound"
    )
    cloudwatch._request_signer._credentials.secret_key = "another"
    with pytest.raises(ClientError, match="InvalidSignature"):
        cloudwatch.describe_alarms()
