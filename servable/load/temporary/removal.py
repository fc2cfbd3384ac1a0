"""Recognize temporary resources by their name prefix and tag, and delete them.

A resource is deleted only if it has both marks. A kill -9 deletes nothing; the next run deletes
abandoned resources and leaves those in use.
"""

import datetime
import platform
import time
import uuid
from collections.abc import Mapping
from typing import Any

import psutil
from botocore.exceptions import BotoCoreError, ClientError

PREFIX = "servable-temporary-"
TAG = "servable:temporary"
OWNER = "servable:owner"
UNTIL = "servable:delete-after"


def build_tags(until: datetime.datetime) -> dict[str, str]:
    return {TAG: "load test", OWNER: describe_owner(), UNTIL: until.isoformat(timespec="seconds")}


def describe_owner() -> str:
    """Return a string that identifies this process among all that ever ran on this computer."""
    return _format_owner(_describe_machine(), psutil.Process())


def _format_owner(machine: str, process: psutil.Process) -> str:
    return f"{machine}/{process.pid}/{process.create_time():.0f}"


def _describe_machine() -> str:
    """Return a name for this computer that includes its network card's address.

    Containers may all be called localhost.
    """
    return f"{platform.node()}-{uuid.getnode():012x}"


def is_abandoned(name: str, marks: Mapping[str, str], now: datetime.datetime) -> bool:
    """Return whether a temporary resource is abandoned.

    It is abandoned if its time is over, or if the process that created it on this computer has
    ended.
    """
    if not name.startswith(PREFIX) or TAG not in marks:
        return False
    try:
        if datetime.datetime.fromisoformat(marks[UNTIL]) <= now:
            return True
        machine, pid, _ = marks[OWNER].rsplit("/", 2)
        # One on another computer may run.
        return (
            machine == _describe_machine()
            and _format_owner(machine, psutil.Process(int(pid))) != marks[OWNER]
        )
    except psutil.NoSuchProcess:
        return True
    except (KeyError, ValueError, psutil.Error):
        return False  # marks that are not ours


# An endpoint is created, or fails, within an hour; its deletion takes minutes.
_MOST_SECONDS = 3600.0
_FIRST_WAIT_SECONDS, _MOST_WAIT_SECONDS = 0.2, 10.0
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
_REFUSED = ("AccessDenied", "ExpiredToken", "UnrecognizedClient", "InvalidClientToken")


def remove_endpoint(client: Any, name: str) -> None:
    """Delete an endpoint and wait until it is gone.

    Raises ClientError if deletion isn't permitted, TimeoutError. Other errors are retried, such
    as a throttled or lost call, or AWS's rejection during an update: an endpoint that stays
    incurs costs.
    """
    deadline, wait = time.monotonic() + _MOST_SECONDS, _FIRST_WAIT_SECONDS
    reason = ""
    while time.monotonic() < deadline:
        try:
            if client.describe_endpoint(EndpointName=name)["EndpointStatus"] != "Deleting":
                client.delete_endpoint(EndpointName=name)
                wait = _FIRST_WAIT_SECONDS
        except (BotoCoreError, ClientError) as error:
            if is_missing(error):
                return
            # The caller has no permission, or no longer: waiting changes nothing.
            if any(code in _read_code_and_message(error)[0] for code in _REFUSED):
                raise
            reason = f": {error}"
        time.sleep(wait)
        wait = min(2 * wait, _MOST_WAIT_SECONDS)
    raise TimeoutError(f"{name} was not deleted within {_MOST_SECONDS:g} s{reason}")


def remove_config(client: Any, name: str) -> None:
    _remove_if_there(client.delete_endpoint_config, EndpointConfigName=name)


def remove_model(client: Any, name: str) -> None:
    _remove_if_there(client.delete_model, ModelName=name)


def _remove_if_there(delete: Any, **which: str) -> None:
    try:
        delete(**which)
    except ClientError as error:
        if not is_missing(error):
            raise


def is_missing(error: BotoCoreError | ClientError) -> bool:
    """Return whether the error means that the resource doesn't exist.

    SageMaker then returns a ValidationException with "Could not find".
    """
    code, message = _read_code_and_message(error)
    return code == "ResourceNotFound" or "could not find" in message.lower()


def _read_code_and_message(error: BotoCoreError | ClientError) -> tuple[str, str]:
    answered = error.response.get("Error", {}) if isinstance(error, ClientError) else {}
    return str(answered.get("Code", "")), str(answered.get("Message", ""))


# Endpoints first: they cost, and hold the others.
_KINDS = (
    ("list_endpoints", "Endpoint", remove_endpoint),
    ("list_endpoint_configs", "EndpointConfig", remove_config),
    ("list_models", "Model", remove_model),
)


def sweep(client: Any) -> list[str]:
    """Delete abandoned resources and return them, such as "Endpoint servable-temporary-…"."""
    now = datetime.datetime.now(datetime.UTC)
    removed = []
    for operation, kind, remove in _KINDS:
        pages = client.get_paginator(operation).paginate(NameContains=PREFIX)
        for item in [item for page in pages for item in page[f"{kind}s"]]:
            name = item[f"{kind}Name"]
            if not name.startswith(PREFIX):
                continue  # NameContains finds it anywhere in the name
            try:
                listed = client.list_tags(ResourceArn=item[f"{kind}Arn"])["Tags"]
            except ClientError:
                continue  # it is gone, or we may not read its tags
            if is_abandoned(name, {tag["Key"]: tag["Value"] for tag in listed}, now):
                remove(client, name)
                removed.append(f"{kind} {name}")
    return removed
