"""A key's ARN names it as its id does, in every operation that changes its state."""

import pytest

from tests.servable_local.aws.local_account import Account


@pytest.mark.parametrize(
    ("operations", "state"),
    [
        (["disable_key"], "Disabled"),
        (["disable_key", "enable_key"], "Enabled"),
        (["schedule_key_deletion"], "PendingDeletion"),
        (["schedule_key_deletion", "cancel_key_deletion"], "Disabled"),
    ],
)
def test_a_key_is_named_by_its_arn(account: Account, operations: list[str], state: str) -> None:
    kms = account.client("kms")
    arn = kms.create_key()["KeyMetadata"]["Arn"]
    for operation in operations:
        getattr(kms, operation)(KeyId=arn)
    assert kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"] == state
