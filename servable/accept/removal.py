"""Finds everything of acceptance runs by name and tag, from any computer, and deletes it."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click
from botocore.exceptions import ClientError

from infra.policy.acceptance_policy import PREFIX, TAG
from infra.policy.account_names import BOOTSTRAP_BUCKET
from servable.accept.run import AcceptAccount
from servable.aws_account import Account, AwsError, absent, unless_absent

TOOLKIT = "CDKToolkit"
JOB_LOGS = "/aws/sagemaker/TransformJobs"
"""SageMaker makes it with the account's first transform job; others' jobs may write there too."""
# Deleted stacks stay listed for 90 days.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_ListStacks.html (2026-11-28)
_GONE = "DELETE_COMPLETE"
_LOG_PREFIXES = (
    f"/aws/sagemaker/Endpoints/{PREFIX}-",
    f"/aws/sagemaker/InferenceComponents/{PREFIX}-",
    f"/aws/lambda/{PREFIX}-",
    f"/aws/vendedlogs/states/{PREFIX}-",
)
# AWS answers so for credentials that are no longer valid or may not: another attempt changes nothing.
_REFUSED = (
    "AccessDenied",
    "Expired",
    "UnrecognizedClient",
    "InvalidClientToken",
    "SignatureDoesNotMatch",
)


@dataclass(frozen=True)
class Leftover:
    """Something of a run that still exists."""

    kind: str
    name: str
    run: str
    """The tag's value; "" where the kind takes no tag and the name alone tells."""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


def leftovers(account: Account) -> list[Leftover]:
    """Return everything that runs have left, what must be deleted first before the rest.

    Raises one of `AwsError`.
    """
    return [
        *_stacks(account),
        *_endpoints(account),
        *_jobs(account),
        *_buckets(account),
        *_keys(account),
        *_log_groups(account),
    ]


def taken(account: Account) -> list[str]:
    """Return names that begin as ours and carry no tag of ours: somebody else's. Raises one of `AwsError`."""
    sagemaker = account.client("sagemaker")
    found = []
    for stack in _described_stacks(account):
        if stack["StackName"].startswith(f"{PREFIX}-") and _run_of(stack) is None:
            found.append(f"stack {stack['StackName']}")
    for item in account.pages("sagemaker", "list_endpoints", "Endpoints", NameContains=PREFIX):
        tags = sagemaker.list_tags(ResourceArn=item["EndpointArn"])["Tags"]
        if item["EndpointName"].startswith(f"{PREFIX}-") and TAG not in _tags(tags):
            found.append(f"endpoint {item['EndpointName']}")
    return found


def _tags(listed: list[dict[str, str]]) -> dict[str, str]:
    return {
        tag.get("Key", tag.get("TagKey", "")): tag.get("Value", tag.get("TagValue", ""))
        for tag in listed
    }


def _run_of(stack: Any) -> str | None:
    """The tag's value; "" for a stack that a killed CLI has not begun: it has no tag and no resource."""
    begun = stack["StackStatus"] != "REVIEW_IN_PROGRESS" or stack["StackName"] == TOOLKIT
    return _tags(stack.get("Tags", [])).get(TAG, None if begun else "")


def _described_stacks(account: Account) -> Iterator[Any]:
    return account.pages("cloudformation", "describe_stacks", "Stacks")


def _stacks(account: Account) -> Iterator[Leftover]:
    """ENV/endpoint before ENV/data, whose exports it uses; the bootstrap, if a run made it, last."""
    found = []
    for stack in _described_stacks(account):
        name, run = stack["StackName"], _run_of(stack)
        ours = name.startswith(f"{PREFIX}-") or name == TOOLKIT
        if ours and run is not None and stack["StackStatus"] != _GONE:
            found.append(Leftover("stack", name, run))
    order = {"-endpoint": 0, "-data": 1}
    yield from sorted(
        found, key=lambda one: next((n for end, n in order.items() if one.name.endswith(end)), 2)
    )


def _endpoints(account: Account) -> Iterator[Leftover]:
    """Endpoints outside of every stack, as a stack whose deletion failed leaves them; they cost."""
    sagemaker = account.client("sagemaker")
    for item in account.pages("sagemaker", "list_endpoints", "Endpoints", NameContains=PREFIX):
        listed = unless_absent(sagemaker.list_tags, ResourceArn=item["EndpointArn"])
        tags = _tags(listed["Tags"]) if listed else {}
        if item["EndpointName"].startswith(f"{PREFIX}-") and TAG in tags:
            yield Leftover("endpoint", item["EndpointName"], tags[TAG])


def _jobs(account: Account) -> Iterator[Leftover]:
    """Transform jobs that still run; ended ones cost nothing and cannot be deleted."""
    for status in ("InProgress", "Stopping"):
        jobs = account.pages(
            "sagemaker",
            "list_transform_jobs",
            "TransformJobSummaries",
            NameContains=PREFIX,
            StatusEquals=status,
        )
        for item in jobs:
            if item["TransformJobName"].startswith(f"{PREFIX}-"):
                yield Leftover("transform job", item["TransformJobName"], "")


def _buckets(account: Account) -> Iterator[Leftover]:
    s3 = account.client("s3")
    own = BOOTSTRAP_BUCKET.format(account=account.number, region=account.region)
    for bucket in s3.list_buckets()["Buckets"]:
        name = bucket["Name"]
        if not name.startswith(f"{PREFIX}-") and name != own:
            continue
        tagging = unless_absent(s3.get_bucket_tagging, Bucket=name)
        tags = _tags(tagging["TagSet"]) if tagging else {}
        if TAG in tags:
            yield Leftover("bucket", name, tags[TAG])


def _keys(account: Account) -> Iterator[Leftover]:
    """KMS keys have no names: their tag alone tells."""
    kms = account.client("kms")
    for key in account.pages("kms", "list_keys", "Keys"):
        try:
            tags = _tags(kms.list_resource_tags(KeyId=key["KeyId"])["Tags"])
            if TAG not in tags:
                continue
            state = kms.describe_key(KeyId=key["KeyId"])["KeyMetadata"]["KeyState"]
        except ClientError:
            continue  # another's, whose policy does not let this caller look
        if state != "PendingDeletion":
            yield Leftover("key", key["KeyId"], tags[TAG])


def _log_groups(account: Account) -> Iterator[Leftover]:
    """SageMaker writes seconds after an endpoint's deletion, and so makes its group again, without a tag."""
    for prefix in _LOG_PREFIXES:
        groups = account.pages(
            "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=prefix
        )
        for group in groups:
            yield Leftover("log group", group["logGroupName"], "")


def remove(
    account: AcceptAccount,
    *,
    minutes: float,
    only: Callable[[Leftover], bool] = lambda leftover: True,
) -> list[str]:
    """Delete all leftovers until none is found; return what could not be deleted, with the reason.

    `minutes`: how long to go on, of AWS's clock. A throttled or lost call is tried again; a refused one
    is not.
    """
    until = time.monotonic() + minutes * account.seconds_per_minute
    pause, named = min(5.0, account.seconds_per_minute / 12), set[str]()
    problems: dict[str, str] = {}
    while True:
        try:
            found = [leftover for leftover in leftovers(account) if only(leftover)]
        except AwsError as error:
            found = []
            problems = {"what is left could not be listed": str(error)}
            if _is_refused(error):
                break
        else:
            if not found:
                return []
            problems = {}
        stacks = {one.name for one in found if one.kind == "stack"}
        for leftover in found:
            if str(leftover) not in named:
                named.add(str(leftover))
                click.echo(f"deleting {leftover}", err=True)
            try:
                _delete(account, leftover, stacks)
                problems[str(leftover)] = "is being deleted"
            except AwsError as error:
                problems[str(leftover)] = str(error)
        if time.monotonic() > until:
            break
        time.sleep(pause)
    return [f"{what}: {why}" for what, why in problems.items()]


def _is_refused(error: Exception) -> bool:
    code = error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""
    return any(word in code for word in _REFUSED)


def _delete(account: Account, leftover: Leftover, stacks: set[str]) -> None:
    """Ask for the deletion; what must wait for a stack is asked again later. Raises one of `AwsError`."""
    name = leftover.name
    if leftover.kind == "stack":
        _delete_stack(account, name, stacks)
    elif leftover.kind == "transform job":
        with suppress(ClientError):  # it ended meanwhile
            account.client("sagemaker").stop_transform_job(TransformJobName=name)
    elif stacks:
        return  # a stack still uses it, or will delete it itself
    elif leftover.kind == "endpoint":
        with suppress(ClientError):  # refused while it is made or updated
            account.client("sagemaker").delete_endpoint(EndpointName=name)
    elif leftover.kind == "bucket":
        _delete_bucket(account, name)
    elif leftover.kind == "key":
        # The least of AWS; nothing is paid for a key that waits for its deletion.
        # https://docs.aws.amazon.com/kms/latest/APIReference/API_ScheduleKeyDeletion.html (2026-11-28)
        account.client("kms").schedule_key_deletion(KeyId=name, PendingWindowInDays=7)
    else:
        unless_absent(account.client("logs").delete_log_group, logGroupName=name)


def _delete_stack(account: Account, name: str, stacks: set[str]) -> None:
    if name.endswith("-data") and f"{name.removesuffix('-data')}-endpoint" in stacks:
        return
    if name == TOOLKIT and stacks != {TOOLKIT}:
        return  # its roles delete the others
    cloudformation = account.client("cloudformation")
    described = unless_absent(cloudformation.describe_stacks, StackName=name)
    status = described["Stacks"][0]["StackStatus"] if described else _GONE
    if status in (_GONE, "DELETE_IN_PROGRESS"):
        return
    if status == "UPDATE_IN_PROGRESS":  # it cannot be deleted; one that is created can
        cloudformation.cancel_update_stack(StackName=name)
    elif not status.startswith("UPDATE_") or not status.endswith("_IN_PROGRESS"):
        cloudformation.delete_stack(StackName=name)


def _delete_bucket(account: Account, name: str) -> None:
    """With every version of every object."""
    s3 = account.client("s3")
    try:
        for page in s3.get_paginator("list_object_versions").paginate(Bucket=name):
            objects = [
                {"Key": item["Key"], "VersionId": item["VersionId"]}
                for item in (*page.get("Versions", []), *page.get("DeleteMarkers", []))
            ]
            if objects:
                s3.delete_objects(Bucket=name, Delete={"Objects": objects, "Quiet": True})
        s3.delete_bucket(Bucket=name)
    except ClientError as error:
        if not absent(error) and "BucketNotEmpty" not in str(error):
            raise


def kept(account: Account) -> list[str]:
    """Return what AWS keeps after a run, each with its price."""
    lines = [
        "KMS keys wait 7 days for their deletion, the least that AWS allows: $0",
        "ended transform jobs, events of deleted stacks and metrics stay listed, and cannot be deleted: $0",
    ]
    bucket = BOOTSTRAP_BUCKET.format(account=account.number, region=account.region)
    with suppress(*AwsError):
        groups = account.pages(
            "logs", "describe_log_groups", "logGroups", logGroupNamePrefix=JOB_LOGS
        )
        if any(group["logGroupName"] == JOB_LOGS for group in groups):
            lines.append(
                f"the log group {JOB_LOGS}, which all transform jobs of the account share, keeps less than "
                "1 MB of the batch: less than $0.001 a month"
            )
        if unless_absent(account.client("s3").head_bucket, Bucket=bucket) is not None:
            lines.append(
                f"the bucket of the CDK's bootstrap, {bucket}, keeps archives and templates, less than 10 "
                "MB: less than $0.001 a month"
            )
    return lines
