"""CloudFormation without moto's own: ours takes its place, and nothing of the other is imported.

Upstream (moto 5.2.5): importing moto.cloudformation imports every service that it can make, a
third of a second of processor time at each start for what is never asked.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import moto
from moto.core.base_backend import BackendDict, BaseBackend

from servable_local.aws.cloudformation.api import CloudFormationApi

_NAME = "moto.cloudformation"


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
    package = ModuleType(_NAME, __doc__)
    # Its modules are found as before: moto imports exceptions from one, where something fails.
    package.__path__ = [str(Path(moto.__file__).parent / "cloudformation")]
    package.cloudformation_backends = BackendDict(  # type: ignore[attr-defined]
        CloudFormationBackend, "cloudformation"
    )
    sys.modules[_NAME] = package
