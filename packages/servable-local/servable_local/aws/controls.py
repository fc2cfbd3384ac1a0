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
_ALLOWED = ", ".join([*_METHODS, "end", "overhead_ms", "start_seconds", "capacity"])


class Controls:
    """Paths that begin with /servable/, which the request router handles first."""

    def __init__(self, clock: Clock, target: Target) -> None:
        self._clock = clock
        self._target = target

    def answer(self, path: str, parameters: Mapping[str, Any] | None) -> Answer | None:
        """(status line, JSON). `parameters` is a POST's body. None: no path of ours."""
        if path == HEALTH_PATH:
            return "200 OK", {"pid": os.getpid()}
        if path == CLOCK_PATH:
            clock = self._clock
            if parameters is not None and isinstance(clock, ManualClock):
                clock.advance(seconds=float(parameters["seconds"]))
            elif parameters is not None:
                return "409 Conflict", {"error": "this clock goes by itself and cannot be moved"}
            now, minute = clock.now().isoformat(), clock.seconds_per_minute
            return "200 OK", {"now": now, "seconds_per_minute": minute}
        if path == FAULT_PATH and parameters is not None:
            try:
                inject(self._target, parameters)
            except (KeyError, ValueError, ServiceException) as error:
                return "400 Bad Request", {"error": str(error)}
            return "200 OK", {}
        return None


def inject(target: Target, parameters: Mapping[str, Any]) -> None:
    """Inject faults into an endpoint's containers or instances, or into the region's instance types.

    `parameters` names account, region and endpoint, and any of: latency_ms, status, queue_full;
    freeze, thaw and kill, each with a part; overhead_ms, what SageMaker itself adds; start_seconds,
    how long a new instance takes on the clock; capacity, the most instances that can be had;
    end, to have it all end. `no_capacity`, without an endpoint, lists the instance types of which there
    are no more from now on, and only those. Raises ValueError, in words, or KeyError for what is missing.
    """
    hosting = target(parameters["account"], parameters["region"])
    if "no_capacity" in parameters:
        hosting.shortage.set(parameters["no_capacity"])
        return
    endpoint = hosting.endpoint(parameters["endpoint"])
    faults = {k: v for k, v in parameters.items() if k not in ("account", "region", "endpoint")}
    if "overhead_ms" in faults:
        endpoint.overhead_seconds = faults.pop("overhead_ms") / _MILLISECONDS_PER_SECOND
    if faults.get("end"):
        endpoint.overhead_seconds = 0.0
        endpoint.instance_faults = InstanceFaults()
    for kind in ("start_seconds", "capacity"):
        if kind in faults:
            setattr(endpoint.instance_faults, kind, faults.pop(kind))
    serving = [component.copies for component in hosting.components_of(endpoint)]
    for fleet in (endpoint.fleet, endpoint.rollout.fleet if endpoint.rollout else None):
        serving += [variant.instances for variant in fleet.variants.values()] if fleet else []
    for instances in serving:
        for container in list(instances.containers):
            for kind, value in faults.items():
                if kind == "end":
                    container.faults.end()
                    continue
                if kind not in _METHODS:
                    raise ValueError(
                        f"{kind} is not a fault that can be injected; allowed: {_ALLOWED}"
                    )
                getattr(container.faults, _METHODS[kind])(value)
