"""Deleting, until it is gone: an endpoint that is still being made cannot be deleted yet."""

import time
from typing import Any

from botocore.exceptions import ClientError

# An endpoint is made, or fails, within an hour at most; its deletion takes minutes.
_MOST_SECONDS = 3600.0
_FIRST_WAIT_SECONDS = 0.2
_MOST_WAIT_SECONDS = 10.0


def remove_endpoint(client: Any, name: str) -> None:
    """Returns when it is gone. Raises ClientError where it may not be deleted, TimeoutError."""
    deadline, wait = time.monotonic() + _MOST_SECONDS, _FIRST_WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            status = client.describe_endpoint(EndpointName=name)["EndpointStatus"]
        except ClientError as error:
            if is_missing(error):
                return
            raise
        if status != "Deleting":
            try:
                client.delete_endpoint(EndpointName=name)
                wait = _FIRST_WAIT_SECONDS
            except ClientError as error:
                # While it is made or updated AWS refuses; afterwards it does not.
                if not is_missing(error) and not status.endswith("ing"):
                    raise
        time.sleep(wait)
        wait = min(2 * wait, _MOST_WAIT_SECONDS)
    raise TimeoutError(f"{name} was not deleted within {_MOST_SECONDS:g} s")


def remove_config(client: Any, name: str) -> None:
    _unless_missing(client.delete_endpoint_config, EndpointConfigName=name)


def remove_model(client: Any, name: str) -> None:
    _unless_missing(client.delete_model, ModelName=name)


def is_missing(error: ClientError) -> bool:
    """SageMaker says ValidationException, and "Could not find", for what is not there."""
    said = error.response["Error"]
    return said["Code"] == "ResourceNotFound" or "could not find" in said["Message"].lower()


def _unless_missing(call: Any, **what: str) -> None:
    try:
        call(**what)
    except ClientError as error:
        if not is_missing(error):
            raise
