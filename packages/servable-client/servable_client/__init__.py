"""Predictions of models behind SageMaker endpoints: arrays in, arrays out.

    from servable_client import Endpoint

    with Endpoint("ranker-prod") as ranker:
        outputs = ranker.predict(feat_ids=ids, feat_vals=values)

docs/client.md has the rest; `servable_client.errors` what can go wrong.
"""

from servable_client.batches import Progress
from servable_client.endpoint import AsyncEndpoint, Endpoint
from servable_client.errors import (
    AsleepError,
    BadAnswerError,
    BadInputError,
    BodyTooLargeError,
    BusyError,
    ConnectionLostError,
    DeadlineExceededError,
    EndpointNotFoundError,
    JobFailedError,
    ModelFailedError,
    NotAllowedError,
    PartFailedError,
    PredictionError,
    QueueFullError,
    RefusedError,
    ThrottledError,
    UnansweredError,
    UnreachableError,
)
from servable_client.exchange import Answer, Job
from servable_client.fake import FakeEndpoint
from servable_client.formats import Outputs
from servable_client.split import Split

__all__ = [
    "Answer", "AsleepError", "AsyncEndpoint", "BadAnswerError", "BadInputError",
    "BodyTooLargeError", "BusyError", "ConnectionLostError", "DeadlineExceededError", "Endpoint",
    "EndpointNotFoundError", "FakeEndpoint", "Job", "JobFailedError", "ModelFailedError",
    "NotAllowedError", "Outputs", "PartFailedError", "PredictionError", "Progress",
    "QueueFullError", "RefusedError", "Split", "ThrottledError", "UnansweredError",
    "UnreachableError",
]  # fmt: skip
