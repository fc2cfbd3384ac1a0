"""How long SageMaker waits for an instance's model and first answer, and the container for a load.

While the model server's port is closed the container looks again after pauses that double
from 0.2 s and stay at 120 s, so the last look is before the time that was configured: 3 s for
6, 25 s for 50, 51 s for 60, 205 s for 300. The first of these was observed with the image's code.
Source: tfs_utils.wait_for_model of the image (urllib3's Retry, backoff_factor 0.1,
https://urllib3.readthedocs.io/en/stable/reference/urllib3.util.html#urllib3.util.Retry, 2026-11-21)
"""

import math
from collections.abc import Iterator

from infra.catalog.limits import least, most
from infra.policy.sizing import Served, download_seconds, load_seconds

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


FIRST_PAUSE_SECONDS = 0.2
# urllib3.util.Retry.DEFAULT_BACKOFF_MAX
LONGEST_PAUSE_SECONDS = 120.0
# What the image waits for when nothing is configured. 300 in older images.
DEFAULT_SECONDS = 60
# InvokeEndpoint's own limit is 60 s; nobody waits a day for a model.
LONGEST_SECONDS = 86_400


def real_wait_seconds(configured_seconds: float) -> float:
    """When the container looks for the last time, in seconds after the model server's start."""
    return max(look for look in _looks(configured_seconds) if look <= configured_seconds)


def wait_seconds_for(load_seconds: float) -> int:
    """The smallest whole number to configure so that the last look is not before the load ends."""
    last = next(look for look in _looks(LONGEST_SECONDS) if look >= load_seconds)
    return int(last) + 1


def _looks(until_seconds: float) -> Iterator[float]:
    look, pause = 0.0, FIRST_PAUSE_SECONDS
    yield look
    while look <= until_seconds:
        look = round(look + pause, 1)
        yield look
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
