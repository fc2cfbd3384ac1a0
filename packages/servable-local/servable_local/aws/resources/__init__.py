"""The resource types that can be deployed, one module for each kind of service.

Each creates its resource by calls to the service, as CloudFormation does; a type without a class
here fails to deploy and is never skipped.
"""

import importlib
import pkgutil

from servable_local.aws.resources.resource_type import ResourceType

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
_kinds = [ResourceType]
for _kind in _kinds:  # grows by the subclasses of each
    _kinds += _kind.__subclasses__()
TYPES = {kind.type: kind() for kind in _kinds if hasattr(kind, "type")}
