"""Keys that STS and IAM issue: with their token, until they end, in the account of their caller."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from servable_local.aws.refusals import AccessError, Reason
from servable_local.aws.signatures import AccessKeys, VerifiedRequest, Verifier
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.signing import SECRET, Sent, Unsigned

ROLE = "arn:aws:iam::{}:role/ranker"
HOUR = 3600
SECONDS = 900  # the shortest session that AWS issues


@dataclass(frozen=True)
class Issued:
    """Credentials as STS issued them."""

    account: str
    access_key_id: str
    secret: str
    token: str
    ends: datetime

    def presigned(self, **changed: Any) -> Sent:
        """A URL that is itself valid for longer than the session."""
        given = {"access_key_id": self.access_key_id, "secret": self.secret, "token": self.token}
        return Unsigned(**(given | changed)).in_query(HOUR)

    def at(self, seconds: float, **changed: Any) -> VerifiedRequest:
        """A use of them, so many seconds after the end of the session."""
        sent = self.presigned(**changed)
        now = self.ends.timestamp() + seconds
        verifier = Verifier(AccessKeys(SECRET), now=lambda: now)
        return verifier.verify(sent.request, lambda most_bytes: sent.body)


CALLS: dict[str, Callable[[Any, str], Any]] = {
    "GetSessionToken": lambda sts, role: sts.get_session_token(DurationSeconds=SECONDS),
    "GetFederationToken": lambda sts, role: sts.get_federation_token(
        Name="ci", DurationSeconds=SECONDS
    ),
    "AssumeRole": lambda sts, role: sts.assume_role(
        RoleArn=role, RoleSessionName="ci", DurationSeconds=SECONDS
    ),
}


@pytest.fixture(params=CALLS)
def issued(request: pytest.FixtureRequest, account: Account) -> Issued:
    """Credentials of each call of STS that issues some."""
    answer = CALLS[request.param](account.client("sts"), ROLE.format(account.number))
    given = answer["Credentials"]
    return Issued(
        account=account.number,
        access_key_id=given["AccessKeyId"],
        secret=given["SecretAccessKey"],
        token=given["SessionToken"],
        ends=given["Expiration"],
    )


def test_a_session_is_its_callers_account_until_its_end(issued: Issued) -> None:
    assert issued.at(-1).account == issued.account


def test_a_session_is_refused_after_its_end(issued: Issued) -> None:
    with pytest.raises(AccessError, match=f"{issued.ends:%H:%M:%S} UTC") as raised:
        issued.at(1)
    assert raised.value.reason is Reason.TOKEN_EXPIRED


def test_a_session_lasts_as_long_as_was_asked_for(issued: Issued) -> None:
    age = issued.ends.timestamp() - datetime.now().timestamp()
    assert SECONDS - 120 < age <= SECONDS


def test_a_session_goes_with_its_own_token_only(issued: Issued) -> None:
    with pytest.raises(AccessError, match="the session token is not the one") as raised:
        issued.at(-1, token="another")
    assert raised.value.reason is Reason.TOKEN


def test_a_session_does_not_go_without_its_token(issued: Issued) -> None:
    with pytest.raises(AccessError, match="the session token is not the one"):
        issued.at(-1, token=None)


def test_two_sessions_have_different_secrets_and_tokens(account: Account) -> None:
    sts = account.client("sts")
    pairs = [sts.get_session_token()["Credentials"] for _ in range(2)]
    for name in ("AccessKeyId", "SecretAccessKey", "SessionToken"):
        assert pairs[0][name] != pairs[1][name]


@pytest.mark.parametrize(("status", "accepted"), [("Active", True), ("Inactive", False)])
def test_a_users_key_is_taken_while_it_is_active(
    account: Account, status: str, accepted: bool
) -> None:
    iam = account.client("iam")
    iam.create_user(UserName="ci")
    key = iam.create_access_key(UserName="ci")["AccessKey"]
    iam.update_access_key(UserName="ci", AccessKeyId=key["AccessKeyId"], Status=status)
    sent = Unsigned(access_key_id=key["AccessKeyId"], secret=key["SecretAccessKey"]).in_header()
    verifier = Verifier(AccessKeys(SECRET))
    if accepted:
        assert verifier.verify(sent.request, lambda most: sent.body).account == account.number
    else:
        with pytest.raises(AccessError, match="is inactive"):
            verifier.verify(sent.request, lambda most: sent.body)
