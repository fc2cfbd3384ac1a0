"""IAM rejects the simulation of policies as AWS rejects a caller without that permission.

Upstream (moto 5.2.5): SimulatePrincipalPolicy isn't there. A policy isn't evaluated here, so neither
"allowed" nor "denied" would be true; callers such as SageMaker's SDK take AccessDenied for "unknown".
"""

from typing import Any

from moto.core.exceptions import ServiceException
from moto.iam.responses import IamResponse

_OPERATIONS = ("simulate_custom_policy", "simulate_principal_policy")


class _AccessDeniedError(ServiceException):
    code = "AccessDenied"


def install() -> None:
    """Patch IAM. Idempotent."""
    for operation in _OPERATIONS:
        setattr(IamResponse, operation, _deny)


def _deny(api: Any) -> None:
    raise _AccessDeniedError(
        f"{api._get_action()} is denied: the local AWS doesn't evaluate policies. On AWS, it needs the "
        "permission of the same name."
    )
