"""How many requests wait in an instance before one is refused: the narrowest of the container's parts."""

from typing import Any

from infra.policy.container import Batching, ContainerSettings
from infra.policy.derived_settings import QueueLimit, compute_queue_limit

BATCHING = Batching(max_batch_size=64, max_enqueued_batches=4)


NGINX = "NGINX: no connection is free"
GUNICORN = "Gunicorn: its backlog is full"
QUEUE = "TensorFlow Serving: max_enqueued_batches"


def narrowest(workers: int, rows: int = 1, vcpus: int = 4, **settings: Any) -> QueueLimit:
    found = ContainerSettings.model_validate(settings)
    return compute_queue_limit(found, vcpus=vcpus, workers=workers, processes=2, rows=rows)


def limit(workers: int, rows: int = 1, **settings: Any) -> int:
    return narrowest(workers, rows, **settings).requests


def test_nginx_and_gunicorn_take_as_many_as_their_connections_and_backlog() -> None:
    assert limit(workers=0) == 4 * 1024
    assert limit(workers=1) == 1000 + 2048
    assert limit(workers=4, gunicorn_worker_class="sync") == 4 + 2048
    assert limit(workers=100) == 4 * 1024


def test_batches_that_may_wait_hold_whole_requests_and_sync_workers_do_not_fill_them() -> None:
    for rows, waiting in [(1, 2 * 4 * 64), (32, 2 * 4 * 2), (64, 8), (65, 8)]:
        assert limit(workers=0, rows=rows, batching=BATCHING) == waiting
    assert limit(workers=8, rows=64, batching=BATCHING, gunicorn_worker_class="sync") == 8 + 2048


def test_the_narrowest_part_refuses_and_a_queue_that_is_never_full_does_not() -> None:
    for narrow, refuses in [
        (narrowest(0), NGINX),
        (narrowest(1), GUNICORN),
        (narrowest(3), NGINX),
        (narrowest(1023, vcpus=3, gunicorn_worker_class="sync"), GUNICORN),
        (narrowest(1024, vcpus=3, gunicorn_worker_class="sync"), NGINX),  # 3,072 at both
        (narrowest(1, batching=BATCHING), QUEUE),
        (narrowest(0, batching=Batching(max_batch_size=64)), NGINX),
    ]:
        assert narrow.refuses == refuses
    for enqueued, waiting in [(2047, 4094), (2048, 4096), (3000, 4096)]:
        batching = Batching(max_batch_size=1, max_enqueued_batches=enqueued)
        narrow = narrowest(0, batching=batching)
        assert (narrow.requests, narrow.refuses == QUEUE) == (waiting, waiting < 4096)
