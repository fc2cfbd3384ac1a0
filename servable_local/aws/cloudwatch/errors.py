"""CloudWatch's refusals, in its own codes."""

from moto.core.exceptions import ServiceException


class ValidationError(ServiceException):
    code = "ValidationError"


class InvalidParameterValueError(ServiceException):
    code = "InvalidParameterValue"


class ResourceNotFoundError(ServiceException):
    code = "ResourceNotFound"
