"""List the deployments of an environment, each with its record."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from infra.parameters.spellings import rename_variables
from infra.policy.execution_policy import BOOTSTRAP_BUCKET
from infra.recording import FOLDER, OUTPUT
from model_packaging.refusal import PackagingError
from servable.project.account import Account, AwsError, fetch_or_none, split_uri

POINTER = "AWS::SSM::Parameter"


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """A deployment that went live or, without a number, the record of one that didn't."""

    number: int | None
    """Number of the deployment within its stack, or of the record if the stack is deleted. None: it
    never went live, or belongs to an earlier stack."""
    time: str
    """UTC time at which it went live; without a number, at which its record was written."""
    live: bool
    fingerprint: str
    record: Mapping[str, Any] | None
    """None: the record does not exist, or cannot be read."""
    changes: tuple[str, ...] = ()
    """Differences from the previous deployment."""
    state_known: bool = True
    """False: whether it went live is no longer recorded, as after `cdk destroy`."""

    @property
    def state(self) -> str:
        if not self.state_known:
            return "not known"
        return "live" if self.live else "never live" if self.number is None else "earlier"

    @property
    def caller(self) -> str:
        """Return the ARN or user that wrote the record.

        Deploying the same settings again doesn't write a new record.
        """
        caller = (self.record or {}).get("caller", {})
        return str(caller.get("arn") or caller.get("user") or "unknown")

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "record": self.record, "caller": self.caller}


def list_deployments(account: Account, stack: str) -> list[Deployment]:
    """Return the deployments of the stack named `stack`, newest first.

    Raises `PackagingError` if AWS can't be reached or rejects a request.
    """
    account.check_credentials()
    try:
        describe = account.client("cloudformation").describe_stacks
        described = fetch_or_none(describe, StackName=stack)
        found = described["Stacks"][0] if described else {}
        outputs = {each["OutputKey"]: each["OutputValue"] for each in found.get("Outputs", [])}
        # The default also applies to a deleted stack.
        bucket = BOOTSTRAP_BUCKET.format(account=account.number, region=account.region)
        bucket, prefix = split_uri(outputs.get(OUTPUT, f"{bucket}/{FOLDER}/{stack}"))
        records = dict(_read_records(account, bucket, f"{prefix}."))
        versions = _list_versions(account, stack)
    except AwsError as wrong:
        problem = f"cannot read the deployments: {wrong}"
        remedy = "check the credentials and their permissions"
        raise PackagingError(Path("AWS"), problem, remedy) from None
    listed: list[Deployment] = []
    for version in versions:
        fingerprint = str(version["Value"])
        before, record = listed[-1].record if listed else None, records.get(fingerprint)
        deployment = Deployment(
            number=int(version["Version"]),
            time=str(version["LastModifiedDate"]),
            live=version is versions[-1],
            fingerprint=fingerprint,
            record=record,
            changes=tuple(_list_changes(before, record)) if before and record else (),
        )
        listed.append(deployment)
    # The pointer, which records what was live, is deleted with its stack.
    since = found["CreationTime"].astimezone(UTC).isoformat(timespec="seconds") if found else None
    others = sorted(
        (str(records[fingerprint].get("published")), fingerprint)
        for fingerprint in records.keys() - {deployment.fingerprint for deployment in listed}
    )
    others_listed = [
        Deployment(
            number=None if found else number,
            time=published,
            live=False,
            fingerprint=fingerprint,
            record=records[fingerprint],
            state_known=since is not None and published >= since,
        )
        for number, (published, fingerprint) in enumerate(others, start=1)
    ]
    return [*listed[::-1], *others_listed[::-1]]


def _list_versions(account: Account, stack: str) -> list[dict[str, Any]]:
    """Return the versions of the pointer parameter, oldest first; SSM keeps the last 100."""
    listed = ("cloudformation", "list_stack_resources", "StackResourceSummaries")
    for resource in account.list_or_empty(*listed, StackName=stack):
        if resource["ResourceType"] == POINTER:
            listed = ("ssm", "get_parameter_history", "Parameters")
            versions = account.list_or_empty(*listed, Name=resource["PhysicalResourceId"])
            return sorted(versions, key=lambda version: int(version["Version"]))
    return []


def _read_records(
    account: Account, bucket: str, prefix: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    s3, listed = account.client("s3"), ("s3", "list_objects_v2", "Contents")
    # If the bucket does not exist, nothing was ever deployed here.
    for item in account.list_or_empty(*listed, Bucket=bucket, Prefix=prefix):
        body = s3.get_object(Bucket=bucket, Key=item["Key"])["Body"].read()
        try:
            record = json.loads(body)
            rename_variables(record["settings"], str(item["Key"]))
            yield str(record["fingerprint"]), record
        except (ValueError, KeyError, TypeError):
            continue  # not a record of Servable


def _list_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    old, new = _flatten(before["settings"]), _flatten(after["settings"])
    for key in sorted({*old, *new}):
        if old.get(key) != new.get(key):
            values = (side.get(key) for side in (old, new))
            was, now = ("left out" if each is None else json.dumps(each) for each in values)
            yield f"{key}: {was} -> {now}"
    archives = [
        {v["variant"]: v["archive"] for v in side["variants"]}
        | {f"batch {b['batch']}": b["archive"] for b in side.get("batches", [])}
        for side in (before, after)
    ]
    for name in sorted(archives[0].keys() & archives[1].keys()):
        was, now = (side[name] for side in archives)
        if was and now and was != now:
            yield f"archive of {name}: {_shorten_url(was)} -> {_shorten_url(now)}"


def _flatten(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{above}.{key}" if above else key
        flat |= _flatten(value, name) if isinstance(value, Mapping) else {name: value}
    return flat


def _shorten_url(url: str) -> str:
    return url.rstrip("/").rsplit("/", 1)[-1][:12]
