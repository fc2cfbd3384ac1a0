"""What stands before the services: accounts, and failures that are told and not retried."""

import pytest
from botocore.exceptions import ClientError

from tests.servable_local.aws.local_account import Account


def test_an_access_key_of_twelve_digits_is_that_account(account: Account) -> None:
    assert account.client("sts").get_caller_identity()["Account"] == account.number


def test_an_account_does_not_see_the_models_of_another(account: Account) -> None:
    assert account.client("sagemaker").list_models()["Models"] == []


def test_an_operation_that_is_not_emulated_is_named(account: Account) -> None:
    with pytest.raises(ClientError, match="NotImplemented.*detect_stack_drift"):
        account.client("cloudformation").detect_stack_drift(StackName="stack")


def test_an_operation_that_is_not_emulated_is_answered_with_what_no_client_retries(
    account: Account,
) -> None:
    with pytest.raises(ClientError) as caught:
        account.client("cloudformation").detect_stack_drift(StackName="stack")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501
