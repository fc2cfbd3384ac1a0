"""CloudWatch's refusals, in its own codes."""

from moto.core.exceptions import ServiceException


class ValidationError(ServiceException):
    code = "ValidationError"


class InvalidParameterValue(ServiceException):
    code = "InvalidParameterValue"


class ResourceNotFound(ServiceException):
    code = "ResourceNotFound"
