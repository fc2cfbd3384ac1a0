"""How long SageMaker waits for an instance to fetch its model, and to answer."""

import math

from infra.catalog.limits import least, most
from infra.policy.served import Served
from infra.policy.sizing import download_seconds, load_seconds

DOWNLOAD = "ProductionVariantModelDataDownloadTimeoutInSeconds"
STARTUP = "ProductionVariantContainerStartupHealthCheckTimeoutInSeconds"
# The estimates are cautious already; what takes twice as long has gone wrong.
SAFETY = 2


def download_timeout_seconds(served: Served) -> int | None:
    """For fetching and unpacking the archive; None: SageMaker's own, which is enough."""
    return _timeout(download_seconds(served), DOWNLOAD)


def startup_timeout_seconds(served: Served, *, processes: int) -> int | None:
    """Until /ping answers; None: SageMaker's own, which is enough."""
    return _timeout(load_seconds(served, processes=processes), STARTUP)


def _timeout(estimate_seconds: float | None, shape: str) -> int | None:
    if estimate_seconds is None or SAFETY * estimate_seconds <= least(shape):
        return None
    whole_minutes = 60 * math.ceil(SAFETY * estimate_seconds / 60)
    return min(most(shape), whole_minutes)
