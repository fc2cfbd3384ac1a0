"""Student's t: how far a mean of few may lie from the true one."""

from statistics import NormalDist

Z975 = NormalDist().inv_cdf(0.975)
# Where the expansion is off by more. Source: any table of it.
EXACT = {1: 12.706, 2: 4.303}


def t975(degrees: int) -> float:
    """Return the 97.5 % quantile, within 1 %: from three degrees of freedom expanded around the normal's.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5
    """
    z, free = Z975, max(degrees, 1)
    return EXACT.get(free) or (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
