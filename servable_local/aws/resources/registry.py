"""Every resource type that can be deployed to the local AWS, found in the modules beside this."""

import importlib
import pkgutil
from pathlib import Path

from servable_local.aws.resources.resource_type import ResourceType


def _found() -> dict[str, ResourceType]:
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        importlib.import_module(f"{__package__}.{module.name}")
    found: dict[str, ResourceType] = {}
    kinds = [ResourceType]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if hasattr(kind, "type"):
            found[kind.type] = kind()
    return found


TYPES = _found()
