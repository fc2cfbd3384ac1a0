"""Patches for every service of moto: repeated reading and importing, and empty successes.

Upstream (moto 5.2.5): moto reads each service's model in addition to botocore, and for some its
own extras, and uses a new botocore session for the Regions of each, which reads the model again,
and the endpoints of all services: 1 s of processor time before a first deployment. It parses
1,582 managed policies for every account: 0.14 s. SSM and ECS import all of EC2, with every
instance type of every Region: 0.4 s. Importing moto.cloudformation imports every service that it
can create: 0.33 s.

A training job on a missing bucket is Completed at once, a command to no instance is a Success,
and a function's invocation needs Docker. Here such operations are rejected: 501 with their name.
Operations that only store data, which can be read back, are supported.
"""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import botocore.session
import moto
from botocore import xform_name
from moto.core import utils
from moto.core.base_backend import BackendDict, BaseBackend
from moto.core.responses import ActionResult, BaseResponse
from moto.iam.models import IAMBackend, ManagedPolicy

from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.errors import SageMakerError
from servable_local.aws.loopback import load_botocore_session
from servable_local.aws.resources.resource_type import format_violations, list_violations

_CALL = BaseResponse.call_action
# SageMaker's records in moto, which can be read back and start nothing.
_RECORDS = re.compile(r"\w+(ModelPackages?|ModelPackageGroups?|ModelCards?|Experiments?|Trials?)$")
_WITHOUT_EFFECT = {
    "awslambda": {
        "CreateEventSourceMapping", "Invoke", "InvokeAsync", "InvokeWithResponseStream",
        "UpdateEventSourceMapping",
    },
    "ecr": {"DescribeImageScanFindings", "StartImageScan"},
    "logs": {"PutSubscriptionFilter", "StartLiveTail"},
    "stepfunctions": {
        "CreateActivity", "GetExecutionHistory", "SendTaskFailure", "SendTaskHeartbeat",
        "SendTaskSuccess", "StartSyncExecution", "TestState", "UpdateMapRun",
    },
    "sns": {"CreatePlatformApplication", "CreatePlatformEndpoint"},
    "ssm": {
        "CreateAssociation", "CreateMaintenanceWindow", "DeregisterPatchBaselineForPatchGroup",
        "RegisterTargetWithMaintenanceWindow", "RegisterTaskWithMaintenanceWindow", "SendCommand",
    },
}  # fmt: skip
_EC2 = "moto.ec2"
_CLOUDFORMATION = "moto.cloudformation"
_MODEL = utils._load_service_model
_REGIONS = botocore.session.Session.get_available_regions
_PARTITIONS = botocore.session.Session.get_available_partitions
_POLICIES = IAMBackend._init_aws_policies
_parsed: dict[str, list[ManagedPolicy]] = {}


def has_no_effect(service: str, operation: str, api: type) -> bool:
    """Return whether an operation of `service`, as moto names it, would be a false success."""
    if service != "sagemaker":
        return operation in _WITHOUT_EFFECT.get(service, ())
    ours = (base for base in api.__mro__ if base.__module__.startswith("servable"))
    own = any(xform_name(operation) in vars(base) for base in ours)
    return not own and _RECORDS.match(operation) is None


def call_action(api: Any) -> Any:
    """Return the response to an operation with an effect here, or to an invalid request of it.

    Requests to an API with `checked`, a service, must fit botocore's model of it, moto's own
    operations included.
    """
    operation = str(api._get_action())
    if has_no_effect(api.service_name, operation, type(api)):
        raise NotImplementedError(f"{operation} would have no effect in the local AWS")
    checked = getattr(api, "checked", None)
    if checked and (problems := list_violations(api._read_request(), checked, operation)):
        return api.serialized(ActionResult(SageMakerError(format_violations(problems))))
    return _CALL(api)


class _Backends:
    """EC2's backends, imported on first use."""

    def __getitem__(self, account: str) -> Any:
        return importlib.import_module(f"{_EC2}.models").ec2_backends[account]


def import_without_ec2(module: str) -> ModuleType:
    """Import a module of moto without EC2, before there are threads that import others."""
    if _EC2 in sys.modules:
        return importlib.import_module(module)
    stand_in = ModuleType(_EC2)
    # moto.ec2's other modules, such as its exceptions, are imported normally.
    stand_in.__path__ = [str(Path(moto.__path__[0], "ec2"))]
    setattr(stand_in, "ec2_backends", _Backends())  # noqa: B010 (mypy)
    sys.modules[_EC2] = stand_in
    try:
        return importlib.import_module(module)
    finally:
        del sys.modules[_EC2]


class CloudFormationBackend(BaseBackend):
    """A backend with only moto's paths; aws/cloudformation/operations.py keeps the state."""

    @property
    def _url_module(self) -> Any:
        return SimpleNamespace(
            url_bases=[r"https?://cloudformation\.(.+)\.amazonaws\.com"],
            url_paths={"{0}/$": CloudFormationApi.dispatch},
        )


def install() -> None:
    """Patch what all services share. Idempotent."""
    package = ModuleType(_CLOUDFORMATION)
    # moto imports exceptions from one of its modules, which must still be found.
    package.__path__ = [str(Path(moto.__file__).parent / "cloudformation")]
    backends = BackendDict(CloudFormationBackend, "cloudformation")
    setattr(package, "cloudformation_backends", backends)  # noqa: B010 (mypy)
    sys.modules[_CLOUDFORMATION] = package
    sessions = botocore.session.Session
    setattr(utils, "_load_service_model", _load_service_model)  # noqa: B010 (mypy)
    setattr(sessions, "get_available_regions", _list_regions)  # noqa: B010
    setattr(sessions, "get_available_partitions", _list_partitions)  # noqa: B010
    setattr(IAMBackend, "_init_aws_policies", _copy_managed_policies)  # noqa: B010
    setattr(BaseResponse, "call_action", call_action)  # noqa: B010


def _load_service_model(service: str, kind: str) -> dict[str, Any]:
    """Return a service's model. `kind`: "service-2" or "paginators-1"."""
    if any(Path(moto.__path__[0], service).glob("*/*.moto-extras.*")):
        return _MODEL(service, kind)
    loader = load_botocore_session().get_component("data_loader")
    return cast(dict[str, Any], loader.load_service_model(service, kind))  # shared by all


def _list_regions(_: Any, *arguments: Any, **more: Any) -> list[str]:
    return cast(list[str], _REGIONS(load_botocore_session(), *arguments, **more))


def _list_partitions(_: Any) -> list[str]:
    return cast(list[str], _PARTITIONS(load_botocore_session()))


def _copy_managed_policies(backend: IAMBackend) -> list[ManagedPolicy]:
    """Copy the policies for an account, which counts its own attachments of each."""
    parsed = _parsed[backend.partition] = _parsed.get(backend.partition) or _POLICIES(backend)
    policies = [object.__new__(type(policy)) for policy in parsed]
    for policy, same in zip(policies, parsed, strict=True):
        vars(policy).update(vars(same), account_id=backend.account_id, versions=[*same.versions])
    return policies
