"""Notes on captured requests: those that are there twice, and hours without any.

SageMaker captures nothing while an instance's disk is full, and writes nothing of that: it looks as if nobody
had called.
Source: https://docs.aws.amazon.com/sagemaker/latest/dg/model-monitor-data-capture-endpoint.html (2026-11-24):
capturing stops at high levels of disk usage; disk utilization is to stay below 75 %.
"""

import math
from collections.abc import Collection, Iterator

import numpy as np

from servable.console.terminal import escaped_name
from servable.replay.index import CaptureIndex
from servable.replay.summary import utc_text

_SHOWN_VARIANTS = 5
# A shorter gap is one of the traffic, or of a deployment.
_LEAST_GAP_SECONDS = 600.0


def capture_notes(index: CaptureIndex, shadows: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each thing to know. `shadows`: names of the environment's shadow variants."""
    counts = index.variants
    if len(counts) > 1:
        several = [f"{escaped_name(name)} {n:,}" for name, n in counts.most_common(_SHOWN_VARIANTS)]
        yield f"captured by variant: {', '.join(several)}"
        for name in sorted(shadows & counts.keys()):
            yield (
                f"variant {name} is a shadow, so its {counts[name]:,} requests repeat those of another "
                "variant; pass the folder or prefix of one variant to --captured"
            )
    gaps = np.diff(index.times)
    if len(gaps) < 2:
        return
    longest, at = float(gaps.max()), int(gaps.argmax())
    # Hardly one recording in 1,000 of requests at random moments has such a gap.
    if longest > max(_LEAST_GAP_SECONDS, float(gaps.mean()) * math.log(1000 * len(gaps))):
        began = utc_text(float(index.times[at]))
        yield (
            f"nothing was captured in the {longest / 60:,.0f} minutes from {began}: nobody called, or the "
            "instance's disk was too full to capture (look at DiskUtilization, which should stay below 75 %)"
        )
