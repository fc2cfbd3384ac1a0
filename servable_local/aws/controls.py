"""The local AWS's own API, which AWS does not have: health, clock, fault injection."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from moto.core.exceptions import ServiceException

from servable_local.aws.clock import Clock, ManualClock
from servable_local.aws.loopback import CLOCK_PATH, FAULT_PATH, HEALTH_PATH
from servable_local.aws.sagemaker.hosting import RegionalHosting
from servable_local.aws.sagemaker.instances import InstanceFaults

Answer = tuple[str, dict[str, Any]]
# (account, region) -> what is hosted there.
Target = Callable[[str, str], RegionalHosting]
_MILLISECONDS_PER_SECOND = 1000
# What the local container does for each kind.
_METHODS = {
    "latency_ms": "slow",
    "status": "fail",
    "queue_full": "fill_queue",
    "freeze": "freeze",
    "thaw": "thaw",
    "kill": "kill",
}


class Controls:
    """Paths that begin with /servable/, which the request router handles first."""

    def __init__(self, clock: Clock, target: Target) -> None:
        self._clock = clock
        self._target = target

    def answer(self, path: str, asked: Mapping[str, Any] | None) -> Answer | None:
        """(status line, JSON). `asked` is a POST's body. None: no path of ours."""
        if path == HEALTH_PATH:
            return "200 OK", {"pid": os.getpid()}
        if path == CLOCK_PATH:
            return self._tell_time(asked)
        if path == FAULT_PATH and asked is not None:
            try:
                inject(self._target, asked)
            except (KeyError, ValueError, ServiceException) as error:
                return "400 Bad Request", {"error": str(error)}
            return "200 OK", {}
        return None

    def _tell_time(self, asked: Mapping[str, Any] | None) -> Answer:
        """POST {"seconds": 60} moves a clock that is moved by hand."""
        clock = self._clock
        if asked is not None and isinstance(clock, ManualClock):
            clock.advance(seconds=float(asked["seconds"]))
        elif asked is not None:
            return "409 Conflict", {"error": "this clock goes by itself and cannot be moved"}
        return "200 OK", {
            "now": clock.now().isoformat(),
            "seconds_per_minute": clock.seconds_per_minute,
        }


def inject(target: Target, asked: Mapping[str, Any]) -> None:
    """Inject faults into an endpoint's containers or instances, or into the region's instance types.

    `asked` names account, region and endpoint, and any of: latency_ms, status, queue_full;
    freeze, thaw and kill, each with a part; overhead_ms, what SageMaker itself adds; start_seconds,
    how long a new instance takes on the clock; capacity, the most instances that can be had;
    end, to have it all end. `no_capacity`, without an endpoint, lists the instance types of which there
    are no more from now on, and only those. Raises ValueError, in words, or KeyError for what is missing.
    """
    hosting = target(asked["account"], asked["region"])
    if "no_capacity" in asked:
        hosting.shortage.set(asked["no_capacity"])
        return
    endpoint = hosting.endpoint(asked["endpoint"])
    wanted = {k: v for k, v in asked.items() if k not in ("account", "region", "endpoint")}
    if "overhead_ms" in wanted:
        endpoint.overhead_seconds = wanted.pop("overhead_ms") / _MILLISECONDS_PER_SECOND
    if wanted.get("end"):
        endpoint.overhead_seconds = 0.0
        endpoint.instance_faults = InstanceFaults()
    for kind in ("start_seconds", "capacity"):
        if kind in wanted:
            setattr(endpoint.instance_faults, kind, wanted.pop(kind))
    for fleet in (endpoint.fleet, endpoint.rollout.fleet if endpoint.rollout else None):
        for variant in fleet.variants.values() if fleet else ():
            for container in list(variant.instances.containers):
                for kind, value in wanted.items():
                    _do(container.faults, kind, value)


def _do(faults: Any, kind: str, value: Any) -> None:
    if kind == "end":
        faults.end()
    elif kind in _METHODS:
        getattr(faults, _METHODS[kind])(value)
    else:
        known = ", ".join([*_METHODS, "end", "overhead_ms", "start_seconds", "capacity"])
        raise ValueError(f"{kind} is not a fault that can be injected; allowed: {known}")
