"""The local AWS does not reach outside this computer, whoever is subscribed."""

import pytest

from tests.servable_local.aws.local_account import Account


def test_an_address_elsewhere_is_not_posted_to(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    posted: list[str] = []
    monkeypatch.setattr("moto.sns.models.requests.post", lambda url, **_: posted.append(url))
    sns = account.client("sns")
    topic = sns.create_topic(Name="page")["TopicArn"]
    for url in ("https://pager.example.com/hook", "https://127.0.0.1:1/hook"):
        sns.subscribe(TopicArn=topic, Protocol="https", Endpoint=url)
    sns.publish(TopicArn=topic, Message="broken")
    assert posted == ["https://127.0.0.1:1/hook"]
