"""What requests with the same headers have in common: worked out for the first of them."""

from dataclasses import dataclass
from typing import Any

from serving.call import Aim
from serving.npy_relay import NpyRelay
from serving.prediction import Model

MOST_PLANS = 256
_MOST_LETTERS = 2_000  # of headers: a caller's oddities are not kept
Told = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`form` is the answer's; `relay` is for .npy bodies that go over gRPC as they are."""

    aim: Aim
    timeout_seconds: float
    content_type: str
    form: str
    model: Model
    relay: NpyRelay | None


def told_by(context: Any) -> Told:
    """All of the container's context that a plan depends on."""
    return (
        context.model_name,
        context.model_version,
        context.method,
        context.rest_uri,
        context.grpc_port,
        context.custom_attributes,
        context.request_content_type,
        context.accept_header,
        getattr(context, "timeout", None),
    )


class Plans:
    """Of one process."""

    def __init__(self) -> None:
        self._plans: dict[Told, Plan] = {}
        self.of = self._plans.get

    def keep(self, told: Told, plan: Plan) -> None:
        if sum(len(one) for one in told if isinstance(one, str)) > _MOST_LETTERS:
            return
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[told] = plan
