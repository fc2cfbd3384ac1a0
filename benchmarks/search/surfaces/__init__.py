"""Made-up endpoints whose requests per second are a formula of their settings.

A seed draws the formula's parameters (of the simulated computers only the noise). The seeds 0 to 49
were looked at while the search was developed; the benchmark draws others, from a date.
"""

from collections.abc import Callable

from benchmarks.search.surfaces import (
    detector,
    hills,
    own_grid,
    plateaus,
    queueing,
    retrieval,
    simulated,
)
from benchmarks.search.surfaces.surface import Surface

FLAT = "flat"

FAMILIES: dict[str, Callable[[int], Surface]] = {
    "retrieval on 36 vCPUs": retrieval.surface,
    "detector on one GPU": detector.surface,
    "queueing, 4 cores": lambda seed: queueing.surface(seed, cores=4),
    "queueing, 16 cores": lambda seed: queueing.surface(seed, cores=16),
    "queueing, 36 cores": lambda seed: queueing.surface(seed, cores=36),
    "simulated, 4 cores": lambda seed: simulated.surface(seed, cores=4),
    "simulated, 16 cores": lambda seed: simulated.surface(seed, cores=16),
    "simulated, 36 cores": lambda seed: simulated.surface(seed, cores=36),
    "random plateaus": plateaus.surface,
    "deceptive": hills.deceptive,
    "cliff": hills.cliff,
    "own grid of prod": own_grid.surface,
    FLAT: plateaus.flat,
}
