"""How many requests wait in an instance before one is refused: the narrowest of the container's parts."""

import pytest

from infra.policy.container import Batching, ContainerSettings
from infra.policy.queue_limit import queue_limit

BATCHING = Batching(max_batch_size=64, max_enqueued_batches=4)


def limit(workers: int, rows: int = 1, **settings: object) -> int:
    found = ContainerSettings.model_validate(settings)
    return queue_limit(found, vcpus=4, workers=workers, processes=2, rows=rows).requests


def test_without_code_nginx_takes_a_thousand_for_each_vcpu() -> None:
    assert limit(workers=0) == 4 * 1024


def test_gunicorn_takes_a_thousand_for_each_worker_and_its_backlog() -> None:
    assert limit(workers=1) == 1000 + 2048


def test_a_sync_worker_takes_one_request() -> None:
    assert limit(workers=4, gunicorn_worker_class="sync") == 4 + 2048


@pytest.mark.parametrize(("rows", "waiting"), [(1, 2 * 4 * 64), (32, 2 * 4 * 2), (64, 8), (65, 8)])
def test_batches_that_may_wait_hold_whole_requests(rows: int, waiting: int) -> None:
    assert limit(workers=0, rows=rows, batching=BATCHING) == waiting


def test_sync_workers_that_are_fewer_than_the_batch_queue_never_fill_it() -> None:
    assert limit(workers=8, rows=64, batching=BATCHING, gunicorn_worker_class="sync") == 8 + 2048
