"""Trouble on request for what is deployed: all containers of an endpoint, or what is before them."""

from collections.abc import Callable, Mapping
from typing import Any

from servable_local.aws.sagemaker.endpoint import Endpoint

# (account, region, endpoint's name) -> the endpoint. Raises an exception that says what is wrong.
Target = Callable[[str, str, str], Endpoint]
_MILLISECONDS_PER_SECOND = 1000


def make_trouble(target: Target, asked: Mapping[str, Any]) -> None:
    """Raises ValueError, in words, or KeyError for what is missing.

    `asked` names account, region and endpoint, and any of: latency_ms, status, queue_full;
    freeze, thaw and kill, each with a part; overhead_ms, what SageMaker itself adds;
    end, to have it all end.
    """
    endpoint = target(asked["account"], asked["region"], asked["endpoint"])
    wanted = {k: v for k, v in asked.items() if k not in ("account", "region", "endpoint")}
    if "overhead_ms" in wanted:
        endpoint.overhead_seconds = wanted.pop("overhead_ms") / _MILLISECONDS_PER_SECOND
    if wanted.get("end"):
        endpoint.overhead_seconds = 0.0
    for fleet in (endpoint.fleet, endpoint.rollout.fleet if endpoint.rollout else None):
        for variant in fleet.variants.values() if fleet else ():
            for kind, value in wanted.items():
                _do(variant.container.faults, kind, value)


def _do(trouble: Any, kind: str, value: Any) -> None:
    acts: dict[str, Callable[[Any], None]] = {
        "latency_ms": lambda value: trouble.slow(value),
        "status": lambda value: trouble.fail(value),
        "queue_full": lambda value: trouble.fill_queue(value),
        "freeze": lambda part: trouble.freeze(part),
        "thaw": lambda part: trouble.thaw(part),
        "kill": lambda part: trouble.kill(part),
        "end": lambda _: trouble.end(),
    }
    if kind not in acts:
        raise ValueError(f"{kind} is no trouble; known are {', '.join(acts)}, overhead_ms")
    acts[kind](value)
