"""Student's t: how far the mean of a few values may be from the true mean."""

from statistics import NormalDist

Z975 = NormalDist().inv_cdf(0.975)
# Where the expansion is off by more. Source: any table of it.
EXACT = {1: 12.706, 2: 4.303}


def compute_t975(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t, within 1 %.

    From three degrees of freedom on, it is expanded around the normal distribution's quantile.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5
    """
    z, free = Z975, max(degrees, 1)
    return EXACT.get(free) or (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
