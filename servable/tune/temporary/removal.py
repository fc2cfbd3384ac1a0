"""Deleting, until it is gone: an endpoint that is still being made cannot be deleted yet."""

import time
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

# An endpoint is made, or fails, within an hour at most; its deletion takes minutes.
_MOST_SECONDS = 3600.0
_FIRST_WAIT_SECONDS = 0.2
_MOST_WAIT_SECONDS = 10.0
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html
_REFUSED = ("AccessDenied", "ExpiredToken", "UnrecognizedClient", "InvalidClientToken")


def remove_endpoint(client: Any, name: str) -> None:
    """Returns when it is gone. Raises ClientError where it may not be deleted, TimeoutError.

    What else goes wrong, a throttled or lost call, or AWS that refuses while it is made or updated,
    is asked again: an endpoint that stays costs.
    """
    deadline, wait = time.monotonic() + _MOST_SECONDS, _FIRST_WAIT_SECONDS
    said = ""
    while time.monotonic() < deadline:
        try:
            if client.describe_endpoint(EndpointName=name)["EndpointStatus"] != "Deleting":
                client.delete_endpoint(EndpointName=name)
                wait = _FIRST_WAIT_SECONDS
        except (BotoCoreError, ClientError) as error:
            if is_missing(error):
                return
            if is_refused(error):
                raise
            said = f": {error}"
        time.sleep(wait)
        wait = min(2 * wait, _MOST_WAIT_SECONDS)
    raise TimeoutError(f"{name} was not deleted within {_MOST_SECONDS:g} s{said}")


def remove_config(client: Any, name: str) -> None:
    _unless_missing(client.delete_endpoint_config, EndpointConfigName=name)


def remove_model(client: Any, name: str) -> None:
    _unless_missing(client.delete_model, ModelName=name)


def is_missing(error: BotoCoreError | ClientError) -> bool:
    """SageMaker says ValidationException, and "Could not find", for what is not there."""
    code, message = _said(error)
    return code == "ResourceNotFound" or "could not find" in message.lower()


def is_refused(error: BotoCoreError | ClientError) -> bool:
    """Whoever asks may not, or no longer: the next hour changes nothing of it."""
    return any(one in _said(error)[0] for one in _REFUSED)


def _said(error: BotoCoreError | ClientError) -> tuple[str, str]:
    """(code, message); both empty where nothing was answered."""
    said = error.response.get("Error", {}) if isinstance(error, ClientError) else {}
    return str(said.get("Code", "")), str(said.get("Message", ""))


def _unless_missing(call: Any, **what: str) -> None:
    try:
        call(**what)
    except ClientError as error:
        if not is_missing(error):
            raise
