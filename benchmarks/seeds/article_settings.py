"""S2's table of its retrieval model on ml.c5.9xlarge, 36 cores."""

Tuple = tuple[int, int, int, int, int]
"""Gunicorn workers, model servers, OpenMP, inter-op and intra-op threads."""

# -> transactions/s
ARTICLE: dict[Tuple, float] = {
    (1, 1, 36, 36, 36): 15.87,
    (36, 1, 1, 36, 36): 164.0,
    (1, 1, 1, 1, 1): 33.0834,
    (36, 1, 1, 1, 1): 67.5118,
    (36, 8, 1, 1, 1): 319.078,
}
FIRST, POOLS, ONES, WORKERS, SERVERS = ARTICLE
