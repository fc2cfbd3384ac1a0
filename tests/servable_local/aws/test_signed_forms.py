"""Every other form than the two of Signature Version 4 is rejected."""

import calendar
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, SigV3Auth
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.refusals import AccessError, Reason, refusal
from servable_local.aws.signatures import LARGEST_UNSTATED_BODY_BYTES, AccessKeys, Verifier
from servable_local.aws.signed_request import ReceivedRequest
from tests.servable_local.aws.signing import ACCOUNT, HOST, SECRET, Sent, Unsigned, verified

ASKED = Unsigned()
HOUR = 3600


# Signed when they are sent: a test may come a quarter of an hour after the module is read.
def signed() -> Sent:
    return ASKED.in_header()


def presigned() -> Sent:
    return ASKED.in_query()


def _authorization(old: str, new: str) -> Sent:
    sent = signed()
    given = sent.request.header("authorization")
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
        Reason.UNSIGNED,
        lambda: _authorization("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
    ),
    "a token": (Reason.UNSIGNED, lambda: signed().with_header("Authorization", "Bearer abc")),
    "a password": (Reason.UNSIGNED, lambda: signed().with_header("Authorization", "Basic dTpw")),
    "header and query": (
        Reason.UNSIGNED,
        lambda: signed().with_target(presigned().request.target),
    ),
    "a header cut short": (Reason.UNSIGNED, lambda: _authorization("Signature=", "Signatur=")),
    "another credential": (Reason.UNSIGNED, lambda: _authorization("aws4_request", "aws5")),
    "another algorithm": (Reason.UNSIGNED, lambda: _query("AWS4-HMAC-SHA256", "AWS4-X")),
    "no date": (Reason.SIGNATURE, lambda: signed().with_header("X-Amz-Date", None)),
    "a header that isn't signed": (
        Reason.SIGNATURE,
        lambda: signed().with_header("x-amz-acl", "public-read"),
    ),
    "a copy through a presigned URL": (
        Reason.SIGNATURE,
        lambda: presigned().with_header("x-amz-copy-source", "/private/key"),
    ),
    "a body in chunks": (Reason.BODY, lambda: _stating("STREAMING-UNSIGNED-PAYLOAD-TRAILER")),
    "a body of any content": (Reason.BODY, lambda: _stating("UNSIGNED-PAYLOAD")),
    "no end": (Reason.FORM, lambda: _query("X-Amz-Expires", "X-Amz-Expire")),
    "no time": (Reason.FORM, lambda: _query("Expires=60", "Expires=0")),
    "too long a time": (Reason.FORM, lambda: ASKED.in_query(604801)),
    "no number": (Reason.FORM, lambda: _query("Expires=60", "Expires=-1")),
    "a date of another form": (Reason.FORM, lambda: _query("X-Amz-Date=2", "X-Amz-Date=a2")),
    "a key of AWS": (
        Reason.KEY,
        lambda: Unsigned(access_key_id="AKIAIOSFODNN7EXAMPLE").in_header(),
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_another_form_is_rejected(name: str) -> None:
    reason, sent = FORMS[name]
    with pytest.raises(AccessError) as rejected:
        verified(sent())
    assert rejected.value.reason is reason


def test_a_request_without_a_signature_is_told_what_to_send() -> None:
    with pytest.raises(AccessError, match=r"is not signed with.*servable local up.*need s3v4"):
        verified(ASKED.by(HmacV1QueryAuth))


def test_the_form_itself_is_taken_with_what_a_proxy_adds() -> None:
    cases: list[Callable[[], Sent]] = [signed, presigned]
    for sent in cases:
        assert verified(sent()).account == ACCOUNT
    assert verified(signed().with_header("X-Amzn-Trace-Id", "Root=1-2")).account == ACCOUNT


def test_a_presigned_url_holds_as_long_as_it_says() -> None:
    assert verified(ASKED.in_query(4 * HOUR), now=lambda: time.time() + 3 * HOUR)
    with pytest.raises(AccessError, match="Request has expired"):
        verified(ASKED.in_query(HOUR), now=lambda: time.time() + 2 * HOUR)

    request = ASKED.in_query(HOUR)
    stated = dict(request.request.pairs)["X-Amz-Date"]
    begun = calendar.timegm(time.strptime(stated, "%Y%m%dT%H%M%SZ"))
    assert verified(request, now=lambda: begun + HOUR).account == ACCOUNT
    with pytest.raises(AccessError):
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
    st.from_regex(
        r"AWS4-HMAC-SHA256 Credential=[^ ,]*, SignedHeaders=[^ ,]*, Signature=[0-9a-f]{64}"
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
    assert refusal(request, caught.value).body
