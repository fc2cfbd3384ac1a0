"""Student's t: how far the mean of a few values may be from the true mean."""

from statistics import NormalDist

# Where the expansion is off by more. Source: any table of it.
EXACT = {
    0.975: {1: 12.706, 2: 4.303},
    0.995: {1: 63.657, 2: 9.925, 3: 5.841, 4: 4.604},
}


def compute_t(quantile: float, degrees: int) -> float:
    """Return a quantile of Student's t, 0.975 or 0.995, within 1 %.

    For more degrees of freedom than in `EXACT`, it is expanded around the normal distribution's.
    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.5
    """
    z, free = NormalDist().inv_cdf(quantile), max(degrees, 1)
    return EXACT[quantile].get(free) or (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
