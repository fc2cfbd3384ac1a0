"""Why a resource could not be made, in the words that CloudFormation shows."""

import logging

from botocore.exceptions import (
    ClientError,
    ParamValidationError,
)

from servable_local.aws.resources.resource_type import ResourceError

_log = logging.getLogger(__name__)


def reason_of(error: Exception) -> str:
    if isinstance(error, ClientError):
        answer = error.response
        return (
            f"{answer['Error'].get('Message') or error} (Service: {error.operation_name}, "
            f"Status Code: {answer['ResponseMetadata'].get('HTTPStatusCode')}, "
            f"Error Code: {answer['Error'].get('Code')})"
        )
    if isinstance(error, ParamValidationError):
        return "Properties validation failed: " + "; ".join(str(error).splitlines()[1:])
    if isinstance(error, ResourceError):
        return str(error)
    _log.exception("a resource type raised")
    return f"Internal failure of the embedded AWS: {type(error).__name__}: {error}"
