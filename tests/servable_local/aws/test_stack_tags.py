"""Resources that outlive a stack keep the stack's tags, by which whoever looks for them finds them."""

from typing import Any

from tests.servable_local.aws.local_account import Account

STACK, TAG = "ranker-data", "cost-center"
TEMPLATE: dict[str, Any] = {
    "Resources": {
        "Bucket": {
            "Type": "AWS::S3::Bucket",
            "Properties": {"Tags": [{"Key": "own", "Value": "1"}]},
            "DeletionPolicy": "Retain",
        },
        "Key": {
            "Type": "AWS::KMS::Key",
            "Properties": {"KeyPolicy": {}},
            "DeletionPolicy": "Retain",
        },
    }
}


def test_a_retained_bucket_and_key_keep_their_own_and_the_stacks_tags(account: Account) -> None:
    deployed = account.deploy(TEMPLATE, STACK, Tags=[{"Key": TAG, "Value": "42"}])
    account.delete(STACK)
    s3, kms = account.client("s3"), account.client("kms")
    (bucket,) = s3.list_buckets()["Buckets"]
    of_bucket = s3.get_bucket_tagging(Bucket=bucket["Name"])["TagSet"]
    (key,) = kms.list_keys()["Keys"]
    of_key = kms.list_resource_tags(KeyId=key["KeyId"])["Tags"]
    assert deployed == "CREATE_COMPLETE"
    assert {tag["Key"]: tag["Value"] for tag in of_bucket} == {TAG: "42", "own": "1"}
    assert {tag["TagKey"]: tag["TagValue"] for tag in of_key} == {TAG: "42"}
