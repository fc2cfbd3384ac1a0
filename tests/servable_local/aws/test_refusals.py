"""A caller that is not let in reads the reason in the form of the service that it asked.

Source of the codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and the pages
"Common Errors" of the services.
"""

import json
from xml.etree import ElementTree

import pytest

from servable_local.aws.errors import AccessError, Reason, build_rejection
from servable_local.aws.signed_request import ReceivedRequest

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
