"""What boto3, the AWS CLI and the CDK CLI really sent, replayed at the time they sent it."""

import re
from datetime import UTC, datetime

import pytest

from servable_local.aws.errors import AccessError
from servable_local.aws.local_aws import ACCOUNT
from servable_local.aws.request_router import check_origin
from servable_local.aws.signatures import VerifiedRequest, Verifier
from tests.servable_local.aws.recorded_requests import Recorded, recorded

KEYS, REQUESTS = recorded()


def _named(one: Recorded) -> str:
    return f"{one.client} {one.request.claimed_service} {one.request.method} {one.request.path}"[
        :70
    ]


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


@pytest.mark.parametrize("client", ["boto3", "AWS CLI", "CDK CLI"])
def test_every_client_signs_every_body_whose_form_is_taken(client: str) -> None:
    """As docs/local.md says: nothing comes in chunks, or unsigned but for presigned URLs."""
    stated = {
        request.request.find_header("x-amz-content-sha256")
        for request in REQUESTS
        if request.client == client
    }
    assert all(one is None or re.fullmatch("[0-9a-f]{64}", one) for one in stated)


def test_the_cdk_cli_signs_with_keys_that_sts_issued() -> None:
    tokens = [
        request for request in REQUESTS
        if request.client == "CDK CLI" and request.request.find_header("x-amz-security-token")
    ]  # fmt: skip
    assert len(tokens) > 5
