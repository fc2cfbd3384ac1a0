"""Reject operations that moto would answer with a success that has not happened: 501 with their name.

Upstream (moto 5.2.5): a training job is Completed at once on a bucket that is not there, a
command that is sent to no instance is a Success, and a function's invocation needs Docker. What is only kept,
and can be read back, is answered.
"""

import re
from typing import Any

from botocore import xform_name
from moto.core.responses import ActionResult, BaseResponse

_CALL = BaseResponse.call_action
# SageMaker's records, as moto has them: they can be read back, and start nothing.
_RECORDS = re.compile(r"\w+(ModelPackages?|ModelPackageGroups?|ModelCards?|Experiments?|Trials?)$")
_WITHOUT_EFFECT = {
    "awslambda": {
        "CreateEventSourceMapping",
        "Invoke",
        "InvokeAsync",
        "InvokeWithResponseStream",
        "UpdateEventSourceMapping",
    },
    "ecr": {"DescribeImageScanFindings", "StartImageScan"},
    "logs": {"PutSubscriptionFilter", "StartLiveTail"},
    "stepfunctions": {
        "CreateActivity",
        "GetExecutionHistory",
        "SendTaskFailure",
        "SendTaskHeartbeat",
        "SendTaskSuccess",
        "StartSyncExecution",
        "TestState",
        "UpdateMapRun",
    },
    "sns": {"CreatePlatformApplication", "CreatePlatformEndpoint"},
    "ssm": {
        "CreateAssociation",
        "CreateMaintenanceWindow",
        "DeregisterPatchBaselineForPatchGroup",
        "RegisterTargetWithMaintenanceWindow",
        "RegisterTaskWithMaintenanceWindow",
        "SendCommand",
    },
}


def install() -> None:
    """Check every operation that moto answers. Idempotent."""
    setattr(BaseResponse, "call_action", call)  # noqa: B010 (mypy)


def without_effect(service: str, operation: str, api: type) -> bool:
    """Return whether an operation of `service`, as moto names it, would be a success that did not happen."""
    if service != "sagemaker":
        return operation in _WITHOUT_EFFECT.get(service, ())
    ours = (base for base in api.__mro__ if base.__module__.startswith("servable"))
    own = any(xform_name(operation) in vars(base) for base in ours)
    return not own and _RECORDS.match(operation) is None


def call(api: Any) -> Any:
    """Return the response to an operation that has an effect here, or to an invalid request of it.

    An API with `validation_error` checks its requests, moto's own operations included.
    """
    operation = str(api._get_action())
    if without_effect(api.service_name, operation, type(api)):
        raise NotImplementedError(f"{operation} would have no effect here")
    validation_error = getattr(api, "validation_error", None)
    if validation_error is not None and (error := validation_error(operation)) is not None:
        return api.serialized(ActionResult(error))
    return _CALL(api)
