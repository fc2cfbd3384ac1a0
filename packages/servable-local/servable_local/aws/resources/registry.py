"""Every resource type that can be deployed to the local AWS, found in the modules beside this."""

import importlib
import pkgutil
from pathlib import Path

from servable_local.aws.resources.resource_type import ResourceType

for _module in pkgutil.iter_modules([str(Path(__file__).parent)]):
    importlib.import_module(f"{__package__}.{_module.name}")
_kinds = [ResourceType]
for _kind in _kinds:  # grows by the subclasses of each
    _kinds += _kind.__subclasses__()
TYPES = {kind.type: kind() for kind in _kinds if hasattr(kind, "type")}
