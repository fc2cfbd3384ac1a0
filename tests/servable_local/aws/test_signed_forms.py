"""Every other form than the two of Signature Version 4 is refused, by its name."""

import calendar
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from botocore.auth import HmacV1Auth, HmacV1QueryAuth, SigV3Auth
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.refusals import AccessError, refusal
from servable_local.aws.signatures import (
    LARGEST_UNSTATED_BODY_BYTES,
    SKEW_SECONDS,
    AccessKeys,
    Verifier,
)
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


def _stated(hash_of_body: str) -> Sent:
    return signed().with_header("X-Amz-Content-SHA256", hash_of_body)


# What is sent: the name by which it is refused.
FORMS: dict[str, Callable[[], Sent]] = {
    "is not signed": lambda: signed().with_header("Authorization", None),
    "Signature Version 2": lambda: ASKED.by(HmacV1Auth),
    "query is signed with Signature Version 2": lambda: ASKED.by(HmacV1QueryAuth),
    "Signature Version 3": lambda: ASKED.by(SigV3Auth),
    "Signature Version 4A": lambda: _authorization("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"),
    "of the kind 'Bearer'": lambda: signed().with_header("Authorization", "Bearer abc"),
    "of the kind 'Basic'": lambda: signed().with_header("Authorization", "Basic dTpw"),
    "form of a page": lambda: (
        signed()
        .with_header("Authorization", None)
        .with_header("Content-Type", "multipart/form-data; boundary=b")
    ),
    "signed twice": lambda: signed().with_target(presigned().request.target),
    "no X-Amz-Date": lambda: signed().with_header("X-Amz-Date", None),
    "not of the form that the AWS SDKs write": lambda: _authorization("Signature=", "Signatur="),
    "KEY/yyyymmdd/region/service/aws4_request": lambda: _authorization("aws4_request", "aws5"),
    "X-Amz-Date is 'yesterday'": lambda: signed().with_header("X-Amz-Date", "yesterday"),
    "STREAMING-UNSIGNED-PAYLOAD-TRAILER": lambda: _stated("STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
    "STREAMING-AWS4-HMAC-SHA256-PAYLOAD": lambda: _stated("STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
    "UNSIGNED-PAYLOAD": lambda: _stated("UNSIGNED-PAYLOAD"),
    "without X-Amz-Expires": lambda: _query("X-Amz-Expires", "X-Amz-Expire"),
    "X-Amz-Signature twice": lambda: presigned().with_target(
        presigned().request.target + "&X-Amz-Signature=0"
    ),
    "X-Amz-Expires is '0'": lambda: _query("Expires=60", "Expires=0"),
    "X-Amz-Expires is '604801'": lambda: ASKED.in_query(604801),
    "X-Amz-Expires is '-1'": lambda: _query("Expires=60", "Expires=-1"),
    "signed with 'AWS4-X'": lambda: _query("AWS4-HMAC-SHA256", "AWS4-X"),
    "not sorted": lambda: _authorization("host;x-amz-content-sha256", "x-amz-content-sha256;host"),
    "x-amz-acl, and does not sign it": lambda: signed().with_header("x-amz-acl", "public-read"),
    "content-type, and does not sign it": lambda: signed().with_header("Content-Type", "a/b"),
    "signs x-amz-date, and does not send it": lambda: presigned().with_target(
        presigned().request.target.replace("Headers=host", "Headers=host%3Bx-amz-date")
    ),
    "a presigned URL, and a header X-Amz-Content-Sha256": lambda: Unsigned(
        headers={"X-Amz-Content-SHA256": "0" * 64}
    ).in_query(),
    "does not answer /bucket/key": lambda: Unsigned(service="servable").in_header(),
    "does not answer /servable/clock": lambda: Unsigned(target="/servable/clock").in_header(),
    "is no access key": lambda: Unsigned(access_key_id="AKIAIOSFODNN7EXAMPLE").in_header(),
    "unset AWS_SESSION_TOKEN": lambda: Unsigned(token="left over").in_header(),
}


@pytest.mark.parametrize("name", FORMS)
def test_another_form_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(AccessError, match=name.replace("'", "['\"]")):
        verified(FORMS[name]())


@pytest.mark.parametrize("sent", [signed, presigned], ids=["header", "query"])
def test_the_form_itself_is_taken(sent: Callable[[], Sent]) -> None:
    assert verified(sent()).account == ACCOUNT


def test_what_a_proxy_adds_after_signing_need_not_be_signed() -> None:
    assert verified(signed().with_header("X-Amzn-Trace-Id", "Root=1-2")).account == ACCOUNT


@pytest.mark.parametrize("late", [SKEW_SECONDS + HOUR, -SKEW_SECONDS - HOUR])
def test_what_was_signed_at_another_time_is_refused(late: float) -> None:
    with pytest.raises(AccessError, match="s ago|s from now"):
        verified(ASKED.in_header(), now=lambda: time.time() + late)


@pytest.mark.parametrize("late", [SKEW_SECONDS - 60, -SKEW_SECONDS + 60])
def test_a_clock_may_be_wrong_by_a_quarter_of_an_hour(late: float) -> None:
    assert verified(ASKED.in_header(), now=lambda: time.time() + late).account == ACCOUNT


def test_a_presigned_url_ends() -> None:
    with pytest.raises(AccessError, match="Request has expired"):
        verified(ASKED.in_query(HOUR), now=lambda: time.time() + 2 * HOUR)


def test_a_presigned_url_holds_as_long_as_it_says() -> None:
    assert verified(ASKED.in_query(4 * HOUR), now=lambda: time.time() + 3 * HOUR)


@pytest.mark.parametrize(
    ("sent", "most"),
    [(signed, SKEW_SECONDS), (lambda: ASKED.in_query(HOUR), HOUR)],
    ids=["header", "query"],
)
def test_the_last_second_is_taken_and_the_next_one_refused(
    sent: Callable[[], Sent], most: int
) -> None:
    request = sent()
    stated = request.request.header("x-amz-date") or dict(request.request.pairs)["X-Amz-Date"]
    begun = calendar.timegm(time.strptime(stated, "%Y%m%dT%H%M%SZ"))
    assert verified(request, now=lambda: begun + most).account == ACCOUNT
    with pytest.raises(AccessError):
        verified(request, now=lambda: begun + most + 1)


def test_a_presigned_url_of_tomorrow_is_refused() -> None:
    with pytest.raises(AccessError, match="from now"):
        verified(ASKED.in_query(), now=lambda: time.time() - 24 * HOUR)


def test_a_credential_of_another_day_is_refused() -> None:
    yesterday = time.strftime("%Y%m%d", time.gmtime(time.time() - 24 * HOUR))
    today = signed().request.header("x-amz-date")
    assert today is not None
    with pytest.raises(AccessError, match=f"the credential is for {yesterday}"):
        verified(_authorization(f"/{today[:8]}/", f"/{yesterday}/"))


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
def test_whatever_is_said_is_refused_in_words_that_a_client_can_read(
    headers: list[tuple[str, str]], query: str
) -> None:
    request = ReceivedRequest("GET", "/?X-Amz-Signature=" + query, [("Host", HOST), *headers])
    with pytest.raises(AccessError) as caught:
        Verifier(AccessKeys(SECRET)).verify(request, lambda limit: b"")
    assert refusal(request, caught.value).body
