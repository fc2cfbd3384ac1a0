"""SageMaker's refusals, in its own codes and words."""

from moto.core.exceptions import ServiceException


class ValidationError(ServiceException):
    code = "ValidationException"


class RuntimeValidationError(ServiceException):
    """The runtime's name for the same thing."""

    code = "ValidationError"


class StartError(Exception):
    """A variant cannot serve. `str()` is the endpoint's FailureReason."""
