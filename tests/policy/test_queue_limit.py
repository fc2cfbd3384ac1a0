"""How many requests wait in an instance before one is refused: the narrowest of the container's parts."""

from typing import Any

from infra.policy.container import Batching, ContainerSettings
from infra.policy.derived_settings import compute_queue_limit

BATCHING = Batching(max_batch_size=64, max_enqueued_batches=4)


def limit(workers: int, rows: int = 1, vcpus: int = 4, **settings: Any) -> int:
    found = ContainerSettings.model_validate(settings)
    return compute_queue_limit(found, vcpus=vcpus, workers=workers, processes=2, rows=rows)


def test_nginx_and_gunicorn_take_as_many_as_their_connections_and_backlog() -> None:
    assert limit(workers=0) == 4 * 1024
    assert limit(workers=1) == 1000 + 2048
    assert limit(workers=4, gunicorn_worker_class="sync") == 4 + 2048
    assert limit(workers=100) == 4 * 1024


def test_batches_that_may_wait_hold_whole_requests_and_sync_workers_do_not_fill_them() -> None:
    for rows, waiting in [(1, 2 * 4 * 64), (32, 2 * 4 * 2), (64, 8), (65, 8)]:
        assert limit(workers=0, rows=rows, batching=BATCHING) == waiting
    assert limit(workers=8, rows=64, batching=BATCHING, gunicorn_worker_class="sync") == 8 + 2048


def test_the_narrowest_part_rejects_and_a_queue_that_is_never_full_does_not() -> None:
    assert limit(3) == 4096
    assert limit(1023, vcpus=3, gunicorn_worker_class="sync") == 1023 + 2048
    assert limit(1024, vcpus=3, gunicorn_worker_class="sync") == 3072  # at both
    assert limit(1, batching=BATCHING) == 512
    assert limit(0, batching=Batching(max_batch_size=64)) == 4096
    for enqueued, waiting in [(2047, 4094), (2048, 4096), (3000, 4096)]:
        batching = Batching(max_batch_size=1, max_enqueued_batches=enqueued)
        assert limit(0, batching=batching) == waiting
