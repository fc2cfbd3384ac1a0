"""Limit of the requests that wait in one instance before it refuses more: NGINX, Gunicorn, batch queue."""

from dataclasses import dataclass

from infra.policy.container import ContainerSettings

# worker_processes auto and worker_connections 2048; a proxied request has two connections.
# https://github.com/aws/sagemaker-tensorflow-serving-container (nginx.conf.template, 2026-11-22)
NGINX_REQUESTS_PER_VCPU = 2048 // 2
# worker_connections and backlog, which the image leaves alone; a sync worker takes one at a time.
# https://docs.gunicorn.org/en/stable/settings.html#worker-connections (2026-11-22)
GUNICORN_REQUESTS_PER_WORKER = 1000
LISTEN_BACKLOG = 2048


@dataclass(frozen=True)
class QueueLimit:
    """Requests that may wait, and what refuses the next one."""

    requests: int
    refuses: str


def queue_limit(
    settings: ContainerSettings, *, vcpus: int, workers: int, processes: int, rows: int
) -> QueueLimit:
    """`workers`: 0 without code. `rows`: of one request, as many as share a batch."""
    accepted = vcpus * NGINX_REQUESTS_PER_VCPU
    limit = QueueLimit(accepted, "NGINX: no connection is free")
    if workers:
        sync = settings.gunicorn_worker_class == "sync"
        accepted = min(accepted, workers * (1 if sync else GUNICORN_REQUESTS_PER_WORKER))
        if accepted + LISTEN_BACKLOG < limit.requests:
            limit = QueueLimit(accepted + LISTEN_BACKLOG, "Gunicorn: its backlog is full")
    batching = settings.batching
    if batching is not None and batching.max_enqueued_batches is not None:
        # Each batch holds whole requests. A full queue is an error to the caller: infra/preflight/container.
        each = max(1, batching.max_batch_size // rows)
        waiting = processes * batching.max_enqueued_batches * each
        if waiting < min(accepted, limit.requests):
            limit = QueueLimit(waiting, "TensorFlow Serving: max_enqueued_batches")
    return limit
