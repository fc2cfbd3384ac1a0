"""The deployments of an environment that came through, each with its record."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from infra.recording import FOLDER, OUTPUT
from model_packaging.refusal import PackagingError
from servable.aws_account import Account, AwsError, unless_absent

POINTER = "AWS::SSM::Parameter"
# What `cdk bootstrap` makes, where nothing else is said.
BUCKET = "cdk-hnb659fds-assets-{account}-{region}"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """One that came through; or, without a number, a record of one that did not."""

    number: int | None
    """Counts the deployments of this stack; None: never live, or of a stack that is gone."""
    time: str
    """When it was live, UTC; without a number, when its record was written."""
    live: bool
    fingerprint: str
    record: Mapping[str, Any] | None
    """None: it is not there, or cannot be read."""
    changes: tuple[str, ...] = ()
    """What is different from the one before."""

    @property
    def caller(self) -> str:
        """Who wrote the record; the same settings deployed again do not write another."""
        said = (self.record or {}).get("caller", {})
        return str(said.get("arn") or said.get("user") or "unknown")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "record": self.record, "caller": self.caller}


def deployments(account: Account, stack: str) -> list[Deployment]:
    """Newest first. `stack`: the name. Raises `PackagingError` where AWS cannot be asked."""
    account.meant()
    try:
        return _deployments(account, stack)
    except AwsError as wrong:
        problem = f"could not be asked: {wrong}"
        raise PackagingError(Path("AWS"), problem, "look at the credentials' permissions") from None


def _deployments(account: Account, stack: str) -> list[Deployment]:
    bucket, prefix = _place(account, stack)
    records = dict(_records(account, bucket, f"{prefix}."))
    found: list[Deployment] = []
    before: Mapping[str, Any] | None = None
    versions = _versions(account, stack)
    for version in versions:
        fingerprint = str(version["Value"])
        record = records.get(fingerprint)
        found.append(
            Deployment(
                number=int(version["Version"]),
                time=str(version["LastModifiedDate"]),
                live=version is versions[-1],
                fingerprint=fingerprint,
                record=record,
                changes=tuple(_changes(before, record)) if before and record else (),
            )
        )
        before = record
    known = {one.fingerprint for one in found}
    never = [
        Deployment(
            number=None,
            time=str(record.get("published")),
            live=False,
            fingerprint=fingerprint,
            record=record,
        )
        for fingerprint, record in records.items()
        if fingerprint not in known
    ]
    return [*found[::-1], *sorted(never, key=lambda one: one.time, reverse=True)]


def _place(account: Account, stack: str) -> tuple[str, str]:
    """(bucket, how the keys begin), also of a stack that is gone."""
    describe = account.client("cloudformation").describe_stacks
    found = unless_absent(describe, StackName=stack)
    for one in found["Stacks"][0].get("Outputs", []) if found else []:
        if one["OutputKey"] == OUTPUT:
            bucket, _, prefix = one["OutputValue"].removeprefix("s3://").partition("/")
            return bucket, prefix
    return BUCKET.format(account=account.number, region=account.region), f"{FOLDER}/{stack}"


def _versions(account: Account, stack: str) -> list[dict[str, Any]]:
    """Of the pointer, oldest first; SSM keeps the last hundred."""
    listed = ("cloudformation", "list_stack_resources", "StackResourceSummaries")
    made = account.all_unless_absent(*listed, StackName=stack)
    name = next((one["PhysicalResourceId"] for one in made if one["ResourceType"] == POINTER), None)
    if name is None:
        return []
    versions = list(account.pages("ssm", "get_parameter_history", "Parameters", Name=name))
    return sorted(versions, key=lambda one: int(one["Version"]))


def _records(account: Account, bucket: str, prefix: str) -> Iterator[tuple[str, dict[str, Any]]]:
    s3 = account.client("s3")
    # Without the bucket nothing was ever deployed here.
    listed = ("s3", "list_objects_v2", "Contents")
    for one in account.all_unless_absent(*listed, Bucket=bucket, Prefix=prefix):
        body = s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
        try:
            record = json.loads(body)
            yield str(record["fingerprint"]), record
        except (ValueError, KeyError, TypeError):
            continue  # no record of ours


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    one, other = _flat(before["settings"]), _flat(after["settings"])
    for key in sorted({*one, *other}):
        if one.get(key) != other.get(key):
            yield f"{key}: {_said(one.get(key))} -> {_said(other.get(key))}"
    archives = [{v["variant"]: v["archive"] for v in side["variants"]} for side in (before, after)]
    for variant in sorted({*archives[0], *archives[1]}):
        was, now = (side.get(variant) for side in archives)
        if was and now and was != now:
            yield f"archive of {variant}: {_short(was)} -> {_short(now)}"


def _flat(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}.{key}" if above else key
        found |= _flat(value, name) if isinstance(value, Mapping) else {name: value}
    return found


def _said(value: Any) -> str:
    return "left out" if value is None else json.dumps(value)


def _short(url: str) -> str:
    return url.rstrip("/").rsplit("/", 1)[-1][:12]
