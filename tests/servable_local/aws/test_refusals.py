"""A caller that is not let in reads the reason in the form of the service that it asked.

Source of the codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and the pages
"Common Errors" of the services.
"""

import json
from typing import Any
from xml.etree import ElementTree

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from servable_local.aws.errors import AccessError, Reason, build_rejection
from servable_local.aws.signed_request import ReceivedRequest
from tests.servable_local.aws.local_account import Account

FORM = ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")


def scope(service: str) -> tuple[str, str]:
    credential = f"Credential=1/20261123/eu-west-1/{service}/aws4_request"
    return "Authorization", f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0"


def refused(*headers: tuple[str, str], reason: Reason = Reason.KEY) -> tuple[str, bytes, str]:
    request = ReceivedRequest("POST", "/", [("Host", "127.0.0.1"), *headers])
    answer = build_rejection(request, AccessError(reason, "wrong <key>"))
    return answer.headers["Content-Type"], answer.body, answer.headers.get("x-amzn-ErrorType", "")


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Amz-Target", "SageMaker.ListModels")],
        [("Content-Type", "application/x-amz-json-1.1")],
        [scope("sagemaker")],
        [scope("lambda")],
    ],
    ids=["target", "content type", "sagemaker", "lambda"],
)
def test_services_that_speak_json_answer_in_json(headers: list[tuple[str, str]]) -> None:
    kind, body, error = refused(*headers)
    assert (kind, error) == ("application/json", "UnrecognizedClientException")
    assert json.loads(body) == {"__type": "UnrecognizedClientException", "message": "wrong <key>"}


@pytest.mark.parametrize(
    ("headers", "path", "code"),
    [
        ([scope("s3")], ".", "InvalidAccessKeyId"),
        ([], ".", "InvalidAccessKeyId"),
        ([FORM, scope("sqs")], "Error", "InvalidClientTokenId"),
        ([FORM, scope("ec2")], "Errors/Error", "AuthFailure"),
        ([scope("sts")], "Error", "InvalidClientTokenId"),
        ([scope("iam")], "Error", "InvalidClientTokenId"),
        ([scope("route53")], "Error", "InvalidClientTokenId"),
        ([scope("cloudfront")], "Error", "InvalidClientTokenId"),
    ],
    ids=["s3", "nobody", "form", "ec2", "sts", "iam", "route53", "cloudfront"],
)
def test_xml_services_answer_in_xml(headers: list[tuple[str, str]], path: str, code: str) -> None:
    kind, body, _ = refused(*headers)
    error = ElementTree.fromstring(body).find(path)
    assert error is not None
    assert (kind, error.findtext("Code"), error.findtext("Message")) == (
        "text/xml", code, "wrong <key>",
    )  # fmt: skip


def test_the_sender_is_at_fault_where_the_form_says_who_is() -> None:
    error = ElementTree.fromstring(refused(scope("sts"))[1]).find("Error")
    s3 = ElementTree.fromstring(refused(scope("s3"))[1])
    assert error is not None
    assert (error.findtext("Type"), s3.findtext("Type")) == ("Sender", None)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_code_in_each_form(reason: Reason) -> None:
    s3, xml, in_json = reason.value
    bodies = [
        refused(header, reason=reason)[1]
        for header in (scope("s3"), scope("sts"), scope("sagemaker"))
    ]
    for body, code in zip(bodies, (s3, xml, in_json), strict=True):
        assert code.encode() in body


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
