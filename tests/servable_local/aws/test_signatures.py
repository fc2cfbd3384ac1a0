"""Signature Version 4 against botocore's own signers: what they sign is let in, and nothing else."""

import calendar
import json
import re
import string
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, SigV3Auth
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.errors import AccessError, Reason, build_rejection
from servable_local.aws.request_router import check_origin
from servable_local.aws.signatures import (
    LARGEST_UNSTATED_BODY_BYTES,
    AccessKeys,
    VerifiedRequest,
    Verifier,
)
from servable_local.aws.signed_request import ReceivedRequest
from tests.servable_local.aws.signing import (
    ACCOUNT,
    HOST,
    SECRET,
    Recorded,
    Sent,
    Unsigned,
    recorded,
    verified,
)

_VISIBLE = string.ascii_letters + string.digits + string.punctuation
_words = st.text(_VISIBLE + " äß中", min_size=1, max_size=12)
_segments = _words.filter(lambda one: one.strip(".") != "")
_paths = st.lists(_segments, max_size=4).map(
    lambda parts: "/" + "/".join(quote(part, safe="-_.~") for part in parts)
)
_queries = st.dictionaries(
    _words.filter(lambda one: not one.lower().startswith("x-amz")), _words, max_size=3
)
# The canonical form has one space where several are.
_values = st.text(_VISIBLE, min_size=1, max_size=12)
_names = st.sampled_from(
    ["X-Amz-Meta-One", "x-amz-meta-t_wo", "X-Amz-Target", "Content-Type", "If-Match"]
)


@st.composite
def _unsigned(draw: st.DrawFn) -> Unsigned:
    query = draw(_queries)
    text = "&".join(
        f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}" for name, value in query.items()
    )
    service = draw(st.sampled_from(["s3", "sagemaker", "sts"]))
    # Of other services botocore's S3 signer knows nothing: they have few paths.
    path = draw(_paths) if service == "s3" else draw(st.sampled_from(["/", "/a/b-c", "/x%20y/z"]))
    return Unsigned(
        service=service,
        method=draw(st.sampled_from(["GET", "PUT", "POST", "DELETE"])),
        target=path + (f"?{text}" if text else ""),
        headers=draw(st.dictionaries(_names, _values, max_size=3)),
        body=draw(st.binary(max_size=40)),
    )


@pytest.mark.long
@given(_unsigned())
def test_what_botocore_signs_is_its_account(asked: Unsigned) -> None:
    assert verified(asked.in_header()).account == ACCOUNT
    assert verified(asked.is_signed_in_query()).account == ACCOUNT


@pytest.mark.long
@given(_unsigned(), st.data())
def test_any_change_after_signing_is_refused(asked: Unsigned, data: st.DataObject) -> None:
    changed = _changed(asked.in_header(), data, body_is_signed=True)
    with pytest.raises(AccessError):
        verified(changed)
    changed = _changed(asked.is_signed_in_query(), data, body_is_signed=asked.service != "s3")
    with pytest.raises(AccessError):
        verified(changed)


@pytest.mark.long
@given(_unsigned(), st.booleans(), st.text("0123456789abcdef", min_size=1, max_size=40))
def test_what_another_secret_signed_is_refused(asked: Unsigned, header: bool, other: str) -> None:
    signed = replace(asked, secret=other)
    with pytest.raises(AccessError, match="servable local up"):
        verified(signed.in_header() if header else signed.is_signed_in_query(), secret=SECRET)


def _changed(sent: Sent, data: st.DataObject, *, body_is_signed: bool) -> Sent:
    request, signature = sent.request, sent.request.parse_signature()
    assert signature is not None
    names = {"authorization", *signature.signed_headers}
    headers = list(request.headers)
    signed = [index for index, (name, _) in enumerate(headers) if name.lower() in names]
    kinds = ["method", "path", "query", "header", "no header", "new header"]
    kind = data.draw(st.sampled_from([*kinds, "body"] if body_is_signed else kinds))
    if kind == "method":
        others = [one for one in ("GET", "PUT", "POST", "DELETE") if one != request.method]
        return replace(sent, request=replace(request, method=data.draw(st.sampled_from(others))))
    if kind == "path":
        path, mark, query = request.target.partition("?")
        return sent.with_target(path + "x" + mark + query)
    if kind == "query":
        if not request.pairs:
            return sent.with_target(request.target + "?a=b")
        pairs = [f"{name}={value}" for name, value in request.pairs]
        pairs[data.draw(st.integers(0, len(pairs) - 1))] += "x"
        return sent.with_target(f"{request.path}?{'&'.join(pairs)}")
    if kind.endswith("header"):
        at = data.draw(st.sampled_from(signed))
        name, value = headers[at]
        where = data.draw(st.integers(0, len(value)))
        if kind == "header":
            headers[at] = name, value[:where] + "0" + value[where:]
        elif kind == "no header":
            del headers[at]
        else:
            headers.append(("x-amz-acl", "public-read"))
        return replace(sent, request=replace(request, headers=headers))
    at = data.draw(st.integers(0, len(sent.body)))
    byte = bytes([data.draw(st.integers(0, 255))])
    return replace(sent, body=sent.body[:at] + byte + sent.body[at:])


ASKED = Unsigned()
HOUR = 3600


# Signed when they are sent: a test may come a quarter of an hour after the module is read.
def signed() -> Sent:
    return ASKED.in_header()


def presigned() -> Sent:
    return ASKED.is_signed_in_query()


def _authorization(old: str, new: str) -> Sent:
    sent = signed()
    given = sent.request.find_header("authorization")
    assert given is not None
    assert old in given
    return sent.with_header("Authorization", given.replace(old, new))


def _query(old: str, new: str) -> Sent:
    sent = presigned()
    assert old in sent.request.target
    return sent.with_target(sent.request.target.replace(old, new))


def _stating(payload: str) -> Sent:
    return Unsigned(body=b"abc").in_header(payload)


# What is sent: the reason for which it is rejected.
FORMS: dict[str, tuple[Reason, Callable[[], Sent]]] = {
    "nothing": (Reason.UNSIGNED, lambda: signed().with_header("Authorization", None)),
    "Signature Version 2": (Reason.UNSIGNED, lambda: ASKED.by(HmacV1Auth)),
    "Signature Version 2 in the query": (Reason.UNSIGNED, lambda: ASKED.by(HmacV1QueryAuth)),
    "Signature Version 3": (Reason.UNSIGNED, lambda: ASKED.by(SigV3Auth)),
    "Signature Version 4A": (
        Reason.UNSIGNED, lambda: _authorization("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256")),
    "a token": (Reason.UNSIGNED, lambda: signed().with_header("Authorization", "Bearer abc")),
    "a password": (Reason.UNSIGNED, lambda: signed().with_header("Authorization", "Basic dTpw")),
    "header and query": (
        Reason.UNSIGNED, lambda: signed().with_target(presigned().request.target)),
    "a header cut short": (Reason.UNSIGNED, lambda: _authorization("Signature=", "Signatur=")),
    "another credential": (Reason.UNSIGNED, lambda: _authorization("aws4_request", "aws5")),
    "another algorithm": (Reason.UNSIGNED, lambda: _query("AWS4-HMAC-SHA256", "AWS4-X")),
    "no date": (Reason.SIGNATURE, lambda: signed().with_header("X-Amz-Date", None)),
    "a header that isn't signed": (
        Reason.SIGNATURE, lambda: signed().with_header("x-amz-acl", "public-read")),
    "a copy through a presigned URL": (
        Reason.SIGNATURE, lambda: presigned().with_header("x-amz-copy-source", "/private/key")),
    "a body in chunks": (Reason.BODY, lambda: _stating("STREAMING-UNSIGNED-PAYLOAD-TRAILER")),
    "a body of any content": (Reason.BODY, lambda: _stating("UNSIGNED-PAYLOAD")),
    "no end": (Reason.FORM, lambda: _query("X-Amz-Expires", "X-Amz-Expire")),
    "no time": (Reason.FORM, lambda: _query("Expires=60", "Expires=0")),
    "too long a time": (Reason.FORM, lambda: ASKED.is_signed_in_query(604801)),
    "no number": (Reason.FORM, lambda: _query("Expires=60", "Expires=-1")),
    "a date of another form": (Reason.FORM, lambda: _query("X-Amz-Date=2", "X-Amz-Date=a2")),
    "a key of AWS": (
        Reason.KEY, lambda: Unsigned(access_key_id="AKIAIOSFODNN7EXAMPLE").in_header()),
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_another_form_is_rejected(name: str) -> None:
    reason, sent = FORMS[name]
    with pytest.raises(AccessError) as rejected:
        verified(sent())
    assert rejected.value.reason is reason
    if reason is Reason.UNSIGNED:
        said = r"isn't signed with.*servable local up.*need s3v4"
        assert re.search(said, str(rejected.value))


def test_the_form_itself_is_taken_with_what_a_proxy_adds() -> None:
    for sent in (signed(), presigned(), signed().with_header("X-Amzn-Trace-Id", "Root=1-2")):
        assert verified(sent).account == ACCOUNT


def test_a_presigned_url_holds_as_long_as_it_says() -> None:
    request = ASKED.is_signed_in_query(HOUR)
    stated = dict(request.request.pairs)["X-Amz-Date"]
    begun = calendar.timegm(time.strptime(stated, "%Y%m%dT%H%M%SZ"))
    assert verified(request, now=lambda: begun + HOUR).account == ACCOUNT
    with pytest.raises(AccessError, match="Request has expired"):
        verified(request, now=lambda: begun + HOUR + 1)


def test_a_body_is_not_read_before_a_stated_hash_is_known_to_be_signed() -> None:
    def read(limit: int | None) -> bytes:
        raise AssertionError("it was read")

    forged = replace(ASKED, secret="guessed").in_header()
    with pytest.raises(AccessError):
        Verifier(AccessKeys(SECRET)).verify(forged.request, read)


def test_a_body_whose_hash_is_stated_nowhere_is_read_up_to_a_limit() -> None:
    limits = []
    sent = Unsigned(service="sagemaker", method="POST", target="/", body=b"{}").in_header()

    def read(limit: int | None) -> bytes:
        limits.append(limit)
        return sent.body

    Verifier(AccessKeys(SECRET)).verify(sent.request, read)
    assert limits == [LARGEST_UNSTATED_BODY_BYTES]


_SAID = st.one_of(
    st.text(st.characters(max_codepoint=255), max_size=30),
    st.sampled_from([value for _, value in signed().request.headers]),
    st.builds(
        "AWS4-HMAC-SHA256 Credential={}, SignedHeaders={}, Signature={}".format,
        *[st.text(st.characters(exclude_categories=["Cs"], exclude_characters=" ,"))] * 2,
        st.text("0123456789abcdef", min_size=64, max_size=64),
    ),
)
_HEADERS = st.sampled_from(
    ["Authorization", "X-Amz-Date", "X-Amz-Content-Sha256", "X-Amz-Security-Token", "Content-Type"]
)


@given(st.lists(st.tuples(_HEADERS, _SAID), max_size=6), _SAID)
def test_a_client_can_read_its_refusal(headers: list[tuple[str, str]], query: str) -> None:
    request = ReceivedRequest("GET", "/?X-Amz-Signature=" + query, [("Host", HOST), *headers])
    with pytest.raises(AccessError) as caught:
        Verifier(AccessKeys(SECRET)).verify(request, lambda limit: b"")
    assert build_rejection(request, caught.value).body


# --- how a refusal reads in the form of the service that was asked
# Source of the codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and the pages
# "Common Errors" of the services.

FORM = ("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")


def scope(service: str) -> tuple[str, str]:
    credential = f"Credential=1/20261123/eu-west-1/{service}/aws4_request"
    return "Authorization", f"AWS4-HMAC-SHA256 {credential}, SignedHeaders=host, Signature=0"


def refused(*headers: tuple[str, str], reason: Reason = Reason.KEY) -> tuple[str, bytes, str]:
    request = ReceivedRequest("POST", "/", [("Host", "127.0.0.1"), *headers])
    answer = build_rejection(request, AccessError(reason, "wrong <key>"))
    return answer.headers["Content-Type"], answer.body, answer.headers.get("x-amzn-ErrorType", "")


def test_services_answer_in_the_form_that_they_speak() -> None:
    """test_owner_only.py has what boto3 reads of each protocol."""
    content_type = ("Content-Type", "application/x-amz-json-1.1")
    for header in (("X-Amz-Target", "SageMaker.ListModels"), content_type, scope("lambda")):
        kind, body, error = refused(header)
        assert (kind, error) == ("application/json", "UnrecognizedClientException")
        told = {"__type": "UnrecognizedClientException", "message": "wrong <key>"}
        assert json.loads(body) == told
    in_xml = ([scope(service)] for service in ("sts", "iam", "route53", "cloudfront"))
    cases: list[tuple[list[tuple[str, str]], str, str, str | None]] = [
        ([], ".", "InvalidAccessKeyId", None),
        ([scope("s3")], ".", "InvalidAccessKeyId", None),
        ([FORM, scope("ec2")], "Errors/Error", "AuthFailure", None),
        *(
            (given, "Error", "InvalidClientTokenId", "Sender")
            for given in ([FORM, scope("sqs")], *in_xml)
        ),
    ]
    for headers, path, code, at_fault in cases:
        kind, body, _ = refused(*headers)
        error = ElementTree.fromstring(body).find(path)
        assert error is not None
        assert kind == "text/xml"
        told = [error.findtext(name) for name in ("Code", "Message", "Type")]
        assert told == [code, "wrong <key>", at_fault]


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_its_code_in_each_form(reason: Reason) -> None:
    for service, code in zip(("s3", "sts", "sagemaker"), reason.value, strict=True):
        assert code.encode() in refused(scope(service), reason=reason)[1]


# --- what boto3, the AWS CLI and the CDK CLI really sent, replayed at the time they sent it

KEYS, REQUESTS = recorded()


def _named(one: Recorded) -> str:
    sent = one.request
    return f"{one.client} {sent.claimed_service} {sent.method} {sent.path}"[:70]


def _replayed(one: Recorded, body: bytes) -> VerifiedRequest:
    signature = one.request.parse_signature()
    assert signature is not None
    signed = datetime.strptime(signature.date, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    return Verifier(KEYS, now=signed.timestamp).verify(one.request, lambda limit: body)


@pytest.mark.parametrize("one", REQUESTS, ids=_named)
def test_a_recorded_request_is_its_account_and_comes_from_a_program(one: Recorded) -> None:
    assert _replayed(one, one.body).account in (ACCOUNT, "000000000000")

    host = one.request.find_header("host")
    assert host is not None
    check_origin(one.request, int(host.rpartition(":")[2]))


@pytest.mark.parametrize(
    "one", [request for request in REQUESTS if not request.request.is_signed_in_query], ids=_named
)
def test_a_recorded_request_with_another_body_is_refused(one: Recorded) -> None:
    with pytest.raises(AccessError):
        _replayed(one, one.body + b"x")


def test_every_client_signs_every_body_whose_form_is_taken() -> None:
    """As docs/local.md says: nothing comes in chunks, or unsigned but for presigned URLs."""
    for client in ["boto3", "AWS CLI", "CDK CLI"]:
        sent = [one.request for one in REQUESTS if one.client == client]
        stated = {request.find_header("x-amz-content-sha256") for request in sent}
        assert all(one is None or re.fullmatch("[0-9a-f]{64}", one) for one in stated)
    assert sum(request.find_header("x-amz-security-token") is not None for request in sent) > 5
