"""What is the same for everybody is read once: botocore's service models, and AWS's managed policies.

Upstream (moto 5.2.5): moto reads each service's model beside botocore, with extras of its own for some, and
asks a new session of botocore for the regions of each, which reads the model again, and the endpoints of all
services: 1 s of processor time until a first deployment is there. It parses 1,582 managed policies for every
account that is asked: 0.14 s.
"""

from pathlib import Path
from typing import Any, cast

import botocore.session
import moto
from moto.core import utils
from moto.iam.models import IAMBackend, ManagedPolicy

from servable_local.aws.loopback import botocore_session

_MODEL = utils._load_service_model
_REGIONS = botocore.session.Session.get_available_regions
_PARTITIONS = botocore.session.Session.get_available_partitions
_POLICIES = IAMBackend._init_aws_policies
_parsed: dict[str, list[ManagedPolicy]] = {}


def install() -> None:
    """Idempotent."""
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
