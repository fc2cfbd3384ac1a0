"""What CloudFormation refuses, in its own codes."""

from moto.core.exceptions import ServiceException


class ValidationError(ServiceException):
    """The request cannot be carried out as it stands. The CDK CLI shows the message."""

    code = "ValidationError"


class AlreadyExistsError(ServiceException):
    code = "AlreadyExistsException"


class ChangeSetNotFoundError(ServiceException):
    code = "ChangeSetNotFound"


class TemplateError(Exception):
    """A template says something that cannot be evaluated. `str()` is the whole sentence."""
