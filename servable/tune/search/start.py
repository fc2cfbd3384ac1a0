"""First points of a search: rules of thumb, and then whatever is furthest from what was tried."""

from collections.abc import Sequence

import numpy as np

from servable.tune.search.space import BATCH_SIZE, Point, Space

# How many of the unknown points that could come next are looked at.
LOOKED_AT = 200


def rules_of_thumb(space: Space, *, vcpus: int) -> list[Point]:
    """Settings that others found to be good on an instance of this size.

    Sources: the retrieval model of S2 (many workers, a server for each four vCPUs, one thread
    each), https://aws.amazon.com/blogs/machine-learning/maximize-tensorflow-performance-on-amazon-sagemaker-endpoints-for-real-time-inference/;
    where there is but one server it takes a call for each vCPU at once, or the others stand still;
    one server with all threads, as TensorFlow does on its own; more servers than that article
    took; batching in one server with all threads and half the workers, as AWS China's article
    on the container did for a ranking model.
    """
    largest = [one for one in space.grid.get(BATCH_SIZE, ()) if isinstance(one, int)]
    smallest = space.grid.get(BATCH_SIZE, (None,))[0]
    usual: Point = {
        "omp_threads": 1,
        "onednn": True,
        BATCH_SIZE: smallest,
        "batching.timeout_micros": 1000,
    }
    fourth = max(1, vcpus // 4)
    every = (
        (fourth, vcpus, 1 if fourth > 1 else vcpus, 1),
        (1, vcpus, vcpus, vcpus),
        (max(1, vcpus // 2), 2 * vcpus, 2, 1),
        (1, max(1, vcpus // 2), vcpus, 1),
    )
    names = ("tfs_processes", "gunicorn_workers", "inter_op_threads", "intra_op_threads")
    points = [{**usual, **dict(zip(names, counts, strict=True))} for counts in every]
    points[2]["onednn"] = False
    points[3][BATCH_SIZE] = largest[-1] if largest else smallest
    return [*points]


def starts(space: Space, wanted: Sequence[Point], *, count: int, seed: int) -> list[int]:
    """Numbers of `count` points: the wanted ones, as near as the space has them, then far ones."""
    found = list(dict.fromkeys(space.nearest(one) for one in wanted))[:count]
    chance = np.random.default_rng([8, seed])
    at = space.coordinates
    while len(found) < min(count, len(space)):
        some = chance.choice(len(space), size=min(LOOKED_AT, len(space)), replace=False)
        if not found:
            found.append(int(some[0]))
            continue
        apart = np.abs(at[some][:, None] - at[found][None]).sum(axis=-1).min(axis=1)
        if apart.max() == 0:
            some = np.setdiff1d(np.arange(len(space)), found)[:1]
            apart = np.zeros(1)
        found.append(int(some[apart.argmax()]))
    return found
