"""Import and read once what moto imports or reads again and again, or never needs here.

Upstream (moto 5.2.5): moto reads each service's model beside botocore, with extras of its own for some, and
asks a new session of botocore for the regions of each, which reads the model again, and the endpoints of all
services: 1 s of processor time until a first deployment is there. It parses 1,582 managed policies for every
account that is asked: 0.14 s. SSM and ECS import all of EC2, with every instance type of every region: 0.4 s.
Importing moto.cloudformation imports every service that it can make: 0.33 s.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import botocore.session
import moto
from moto.core import utils
from moto.core.base_backend import BackendDict, BaseBackend
from moto.iam.models import IAMBackend, ManagedPolicy

from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.loopback import botocore_session

_EC2 = "moto.ec2"
_CLOUDFORMATION = "moto.cloudformation"
_MODEL = utils._load_service_model
_REGIONS = botocore.session.Session.get_available_regions
_PARTITIONS = botocore.session.Session.get_available_partitions
_POLICIES = IAMBackend._init_aws_policies
_parsed: dict[str, list[ManagedPolicy]] = {}


class _Backends:
    """EC2's, which are imported when one is asked for."""

    def __getitem__(self, account: str) -> Any:
        return importlib.import_module(f"{_EC2}.models").ec2_backends[account]


def without_ec2(module: str) -> ModuleType:
    """Import a module of moto, before there are threads that import others."""
    if _EC2 in sys.modules:
        return importlib.import_module(module)
    stand_in = ModuleType(_EC2)
    # Its exceptions are imported as they are.
    stand_in.__path__ = [str(Path(moto.__path__[0], "ec2"))]
    setattr(stand_in, "ec2_backends", _Backends())  # noqa: B010 (mypy)
    sys.modules[_EC2] = stand_in
    try:
        return importlib.import_module(module)
    finally:
        del sys.modules[_EC2]


class CloudFormationBackend(BaseBackend):
    """moto's backend for its paths alone; servable_local/aws/cloudformation/operations.py keeps the state."""

    @property
    def _url_module(self) -> Any:
        return SimpleNamespace(
            url_bases=[r"https?://cloudformation\.(.+)\.amazonaws\.com"],
            url_paths={"{0}/$": CloudFormationApi.dispatch},
        )


def install() -> None:
    """Idempotent."""
    package = ModuleType(_CLOUDFORMATION)
    # Its modules are found as before: moto imports exceptions from one, where something fails.
    package.__path__ = [str(Path(moto.__file__).parent / "cloudformation")]
    package.cloudformation_backends = BackendDict(  # type: ignore[attr-defined]
        CloudFormationBackend, "cloudformation"
    )
    sys.modules[_CLOUDFORMATION] = package
    sessions = botocore.session.Session
    setattr(utils, "_load_service_model", _service_model)  # noqa: B010 (mypy)
    setattr(sessions, "get_available_regions", _regions)  # noqa: B010
    setattr(sessions, "get_available_partitions", _partitions)  # noqa: B010
    setattr(IAMBackend, "_init_aws_policies", _managed_policies)  # noqa: B010


def _service_model(service: str, kind: str) -> dict[str, Any]:
    """`kind`: "service-2" or "paginators-1"."""
    if any(Path(moto.__path__[0], service).glob("*/*.moto-extras.*")):
        return _MODEL(service, kind)
    loader = botocore_session().get_component("data_loader")
    return cast(dict[str, Any], loader.load_service_model(service, kind))  # shared by all


def _regions(_: Any, *arguments: Any, **more: Any) -> list[str]:
    return cast(list[str], _REGIONS(botocore_session(), *arguments, **more))


def _partitions(_: Any) -> list[str]:
    return cast(list[str], _PARTITIONS(botocore_session()))


def _managed_policies(backend: IAMBackend) -> list[ManagedPolicy]:
    """Copies for an account, which counts by itself what each is attached to."""
    parsed = _parsed[backend.partition] = _parsed.get(backend.partition) or _POLICIES(backend)
    policies = [object.__new__(type(policy)) for policy in parsed]
    for policy, same in zip(policies, parsed, strict=True):
        vars(policy).update(vars(same), account_id=backend.account_id, versions=[*same.versions])
    return policies
