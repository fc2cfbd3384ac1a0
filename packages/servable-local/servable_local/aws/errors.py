"""Errors of the emulated services, each with its service's error code."""

from moto.core.exceptions import ServiceException


class ValidationError(ServiceException):
    """The request cannot be carried out as it stands. The CDK CLI shows the message."""

    code = "ValidationError"


class SageMakerError(ServiceException):
    """SageMaker's one code for whatever it refuses; its runtime has `ValidationError`'s."""

    code = "ValidationException"


class AlreadyExistsError(ServiceException):
    code = "AlreadyExistsException"


class ChangeSetNotFoundError(ServiceException):
    code = "ChangeSetNotFound"


class InsufficientCapabilitiesError(ServiceException):
    code = "InsufficientCapabilitiesException"


class InvalidChangeSetStatusError(ServiceException):
    code = "InvalidChangeSetStatus"


class InvalidParameterCombinationError(ServiceException):
    code = "InvalidParameterCombination"


class InvalidParameterValueError(ServiceException):
    code = "InvalidParameterValue"


class ResourceNotFoundError(ServiceException):
    code = "ResourceNotFound"
