"""botocore's service models are read once: for the clients here and for the services that answer them.

Upstream (moto 5.2.5): moto reads each service's model beside botocore, with extras of its own for some, and
asks a new session of botocore for the regions of each, which reads the model again, and the endpoints of all
services: 1 s of processor time until a first deployment is there.
"""

from pathlib import Path
from typing import Any, cast

import botocore.session
import moto
from moto.core import utils

from servable_local.aws.loopback import botocore_session

_MODEL = utils._load_service_model
_REGIONS = botocore.session.Session.get_available_regions
_PARTITIONS = botocore.session.Session.get_available_partitions


def install() -> None:
    """Idempotent."""
    sessions = botocore.session.Session
    setattr(utils, "_load_service_model", _service_model)  # noqa: B010 (mypy)
    setattr(sessions, "get_available_regions", _regions)  # noqa: B010
    setattr(sessions, "get_available_partitions", _partitions)  # noqa: B010


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
