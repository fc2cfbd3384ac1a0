"""SageMaker's timeouts for an instance's model and first answer, and the container's for a load.

While the model server's port is closed, the container waits in pauses that double from 0.2 s up to
120 s (urllib3's Retry, backoff_factor 0.1). The configured time only determines the number of pauses,
so that the container waits less than configured, and differently in each image. With the code of
2.20 it waited 3.0 s of 6 s.
Source: wait_for_model and retry_from_timeout in tfs_utils.py of the image,
https://github.com/aws/deep-learning-containers, since 2.20 in scripts/docker/tensorflow/inference,
before in tensorflow/inference/docker/build_artifacts, read 2026-11-22;
https://urllib3.readthedocs.io/en/stable/reference/urllib3.util.html#urllib3.util.Retry
"""

import math

from infra.catalog import images
from infra.catalog.limits import least, most
from infra.policy.sizing import Served, download_seconds, load_seconds

DOWNLOAD = "ProductionVariantModelDataDownloadTimeoutInSeconds"
STARTUP = "ProductionVariantContainerStartupHealthCheckTimeoutInSeconds"
# The estimates are cautious already, so a start that takes twice as long has failed.
SAFETY = 2


def download_timeout_seconds(served: Served) -> int | None:
    """Timeout to download and unpack the archive; None if SageMaker's own is enough."""
    return _timeout(download_seconds(served), DOWNLOAD)


def startup_timeout_seconds(served: Served, *, processes: int) -> int | None:
    """Timeout until /ping answers; None if SageMaker's own is enough."""
    return _timeout(load_seconds(served, processes=processes), STARTUP)


def _timeout(estimate_seconds: float | None, shape: str) -> int | None:
    if estimate_seconds is None or SAFETY * estimate_seconds <= least(shape):
        return None
    whole_minutes = 60 * math.ceil(SAFETY * estimate_seconds / 60)
    return min(most(shape), whole_minutes)


# The image's rule as a table: configured seconds from which on, and the seconds that it really waits.
# In 2.20 floor(log2(10 * seconds + 1)) retries fit, and the first comes at once, without a pause.
_SINCE_2_20 = (
    (1, 0.6), (2, 1.4), (4, 3.0), (7, 6.2), (13, 12.6), (26, 25.4), (52, 51.0), (103, 102.2),
    (205, 204.6), (410, 324.6), (820, 444.6), (1639, 564.6), (3277, 684.6), (6554, 804.6),
    (13_108, 924.6), (26_215, 1044.6), (52_429, 1164.6),
)  # fmt: skip
_UP_TO_2_19 = (
    (1, 0.6), (3, 1.4), (6, 3.0), (13, 6.2), (25, 12.6), (51, 25.4), (102, 51.0), (205, 102.2),
    (409, 204.6), (819, 324.6), (1638, 444.6), (3277, 564.6), (6553, 684.6), (13_107, 804.6),
    (26_214, 924.6), (52_429, 1044.6),
)  # fmt: skip
# A request may also take as long as is configured for a load, so at most a day is recommended.
LONGEST_SECONDS = 86_400


def default_seconds(tensorflow: str, *, processes: int) -> int:
    """The default wait time of the image of this version, in seconds.

    Source: serve.py of the image
    """
    return 60 if images.has("rewritten_code", tensorflow) else 55 // processes


def real_wait_seconds(configured_seconds: int, tensorflow: str) -> float:
    """Seconds that the image of this version really waits for a model whose port is closed."""
    rows = _rows(tensorflow)
    return max((real for configured, real in rows if configured <= configured_seconds), default=0.0)


def wait_seconds_for(load_seconds: float, tensorflow: str) -> int:
    """The smallest whole number of seconds to configure so that the image waits for such a load.

    It is LONGEST_SECONDS for a load that is longer than every row of the table.
    """
    outlasting = (configured for configured, real in _rows(tensorflow) if real >= load_seconds)
    return next(outlasting, LONGEST_SECONDS)


def _rows(tensorflow: str) -> tuple[tuple[int, float], ...]:
    return _SINCE_2_20 if images.has("rewritten_code", tensorflow) else _UP_TO_2_19
