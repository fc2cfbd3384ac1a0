"""Everything CloudFormation knows, by account and region, for the life of the server."""

import threading
from dataclasses import dataclass, field

from servable_local.aws.cloudformation.change_set import ChangeSets
from servable_local.aws.cloudformation.operations import Operations
from servable_local.aws.cloudformation.stacks import Stacks
from servable_local.aws.loopback import Access, Loopback


@dataclass
class Region:
    stacks: Stacks
    operations: Operations
    change_sets: ChangeSets = field(default_factory=ChangeSets)


class Backend:
    """Regions come into being when they are first asked for."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._regions: dict[tuple[str, str], Region] = {}
        self._lock = threading.Lock()

    def region(self, account: str, region: str) -> Region:
        with self._lock:
            key = (account, region)
            if key not in self._regions:
                aws = Loopback(self._access, account=account, region=region)
                stacks = Stacks(aws)
                self._regions[key] = Region(stacks, Operations(stacks, aws))
            return self._regions[key]

    def loopback(self, account: str, region: str) -> Loopback:
        return Loopback(self._access, account=account, region=region)
