"""What can be wrong with a deployed model, as `make demo-trouble` makes it wrong."""

from collections.abc import Callable
from dataclasses import dataclass

from servable_local.aws import EmbeddedAws

ENDPOINT = "ranker-local"
P99_LATENCY_MS = 250  # what the alarm allows: a busy machine alone must not set it off
SLOW_MS = 600
KILL_EVERY_SECONDS = 0.2


@dataclass(frozen=True)
class Trouble:
    """`make` is called again and again while it lasts; `metric` is whose alarm should go off."""

    name: str
    said: str
    metric: str
    make: Callable[[EmbeddedAws], None]
    again: bool = False


TROUBLES = (
    Trouble(
        "slowed",
        f"every prediction takes {SLOW_MS} ms longer",
        "ModelLatency",
        lambda aws: aws.trouble(ENDPOINT, latency_ms=SLOW_MS),
    ),
    Trouble(
        "killed",
        f"the model server is killed every {KILL_EVERY_SECONDS:g} s; its supervisor starts it again",
        "Invocation5XXErrors",
        lambda aws: aws.trouble(ENDPOINT, kill="model server"),
        again=True,
    ),
    Trouble(
        "answering 503",
        "the model server answers 503 to every prediction",
        "Invocation5XXErrors",
        lambda aws: aws.trouble(ENDPOINT, status=503),
    ),
)
