"""Gunicorn's: a worker says when it has loaded the model and can answer."""

from typing import Any

READY = "worker is ready"


def post_worker_init(worker: Any) -> None:
    worker.log.info(READY)
