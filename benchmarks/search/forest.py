"""A plain forest: what our Gaussian process is compared with."""

from collections.abc import Sequence

import numpy as np

from servable.tune.search.gaussian_process import Array, Expected, Ranks

TREES, SMALLEST = 20, 3
# The noise of a measurement, which a forest does not tell from an effect.
NOISE = 0.05


def forest_expected(
    at: Array, tried: Sequence[int], logs: Array, chance: np.random.Generator
) -> Expected:
    """Extremely randomized trees on bootstrapped measurements; their scatter is the deviation.

    Source: Geurts, Ernst and Wehenkel, Extremely Randomized Trees, 2006.
    """
    trees = []
    for _ in range(TREES):
        drawn = chance.integers(len(logs), size=len(logs))
        found = np.empty(len(at))
        _grow(at[tried][drawn], logs[drawn], at, np.arange(len(at)), found, chance)
        trees.append(found)
    return Expected(np.mean(trees, axis=0), np.std(trees, axis=0) + 1e-6, NOISE)


def _grow(
    x: Array, y: Array, at: Array, points: Ranks, into: Array, chance: np.random.Generator
) -> None:
    """Fills `into` at `points`: in each setting a cut at random, and the best of these."""
    below = x < (cuts := chance.uniform(x.min(axis=0), x.max(axis=0)))
    left, right = below.sum(axis=0), (~below).sum(axis=0)
    useful = (left > 0) & (right > 0)
    if len(y) < SMALLEST or not useful.any():
        into[points] = y.mean()
        return
    explained = (y @ below) ** 2 / np.maximum(left, 1) + (y @ ~below) ** 2 / np.maximum(right, 1)
    best = int(np.where(useful, explained, -np.inf).argmax())
    side, near = below[:, best], at[points, best] < cuts[best]
    _grow(x[side], y[side], at, points[near], into, chance)
    _grow(x[~side], y[~side], at, points[~near], into, chance)
