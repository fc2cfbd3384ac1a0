"""One of every type: made, read back from the services, changed, removed."""

from collections import Counter

import pytest

from tests.servable_local.aws.deployed_templates import environment
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long

_BESIDE = [("AWS::S3::Bucket", 1)]  # the one that holds the archive


def _declared(template: dict[str, dict[str, dict[str, str]]]) -> Counter[str]:
    return Counter(resource["Type"] for resource in template["Resources"].values())


def test_a_stack_holds_its_template_once_and_leaves_nothing(account: Account) -> None:
    template = environment(account.put_archive(b"one"))
    account.deploy(template)
    found = Counter(kind for kind, _ in account.inventory())
    assert found - Counter(dict(_BESIDE)) == _declared(template)
    refused = account.client("cloudformation").exceptions.ClientError
    with pytest.raises(refused, match="No updates are to be performed."):
        account.deploy(template)
    account.delete()
    assert [kind for kind, _ in account.inventory()] == ["AWS::S3::Bucket"]


def test_another_archive_keeps_the_counts(account: Account) -> None:
    template = environment(account.put_archive(b"one", "one.tar.gz"))
    account.deploy(template)
    before = Counter(kind for kind, _ in account.inventory())
    changed = environment(account.put_archive(b"two", "two.tar.gz"))
    account.deploy(changed)
    assert Counter(kind for kind, _ in account.inventory()) == before
