"""Made-up endpoints whose requests per second are a formula of their settings.

Written before the search that they judge, but for the simulator's (`simulated`), which came when it
was done, and on which nothing was developed. Developed on SEEDS_TO_DEVELOP, reported on
SEEDS_TO_REPORT; a seed draws the formula's parameters and the noise of its measurements.
"""

from collections.abc import Callable

from benchmarks.search.surfaces import detector, plateaus, queueing, retrieval, simulated
from benchmarks.search.surfaces.surface import Surface

SEEDS_TO_DEVELOP = range(10)
SEEDS_TO_REPORT = range(10, 30)

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
}
FLAT = plateaus.flat
