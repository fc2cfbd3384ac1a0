"""One endpoint of four instances on a clock that stands still, in no server and without containers."""

import tempfile
from pathlib import Path
from typing import Any

from servable_local.aws.clock import ManualClock
from servable_local.aws.sagemaker.endpoint import EndpointDependencies, HostedEndpoint
from servable_local.aws.sagemaker.fleet import Fleet, HostedVariant
from servable_local.aws.sagemaker.instances import VariantInstances

ALL_AT_ONCE: dict[str, Any] = {"Type": "ALL_AT_ONCE"}
SIZE = {"Type": "CAPACITY_PERCENT", "Value": 25}
CANARY = {"Type": "CANARY", "CanarySize": SIZE, "WaitIntervalInSeconds": 60}


def blue_green(routing: dict[str, Any], **more: Any) -> dict[str, Any]:
    policy = {"TrafficRoutingConfiguration": routing, "TerminationWaitInSeconds": 120, **more}
    alarms = {"Alarms": [{"AlarmName": "slow"}, {"AlarmName": "errors"}]}
    return {"BlueGreenUpdatePolicy": policy, "AutoRollbackConfiguration": alarms}


class Container:
    """A container that counts how often it was looked after, and knows that it ended."""

    def __init__(self) -> None:
        self.busy = self.healed = 0
        self.closed = False

    def restart_if_ended(self) -> None:
        self.healed += 1

    def close(self) -> None:
        self.closed = True


def config(name: str, **more: Any) -> dict[str, Any]:
    return {"EndpointConfigName": name, "ProductionVariants": [{"VariantName": "primary"}], **more}


class Case:
    """One endpoint of four instances on a clock that stands still, and the events that it told."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = ManualClock()
        self.fleets: dict[str, Fleet] = {}
        self.alarms: list[str] = []
        self.events: list[tuple[str, str]] = []
        self.error: Exception | None = None
        self._folder = folder
        dependencies = EndpointDependencies(
            clock=self.clock,
            start=self._start,
            in_alarm=lambda names: [name for name in names if name in self.alarms],
            send_event=lambda kind: self.events.append((kind, self.endpoint.status)),
        )
        self.endpoint = HostedEndpoint(
            "ranker", "arn:ranker", config("first", **settings), dependencies
        )
        # Its steps happen at once and in order, instead of a thread for each.
        self.endpoint._run_in_background = lambda work: work()  # type: ignore[method-assign]

    def another(self) -> "Case":
        return Case(Path(tempfile.mkdtemp(dir=self._folder))).created()

    def _start(self, name: str) -> Fleet:
        if self.error is not None:
            raise self.error
        variants = []
        for variant in ("primary", "shadow"):
            start: Any = Container
            instances = VariantInstances([start()], 4, start)
            instances.set_initial_count(4)
            variants.append(HostedVariant(variant, 1.0, "image:1", instances))
        folder = self._folder / name
        folder.mkdir()
        self.fleets[name] = Fleet(name, variants[:1], folder, variants[1:])
        return self.fleets[name]

    @property
    def fleet(self) -> Fleet:
        """The fleet that serves."""
        assert self.endpoint.fleet is not None
        return self.endpoint.fleet

    def created(self) -> "Case":
        self.endpoint.create()
        return self

    def update(self, policy: dict[str, Any] | None = None, *retain: str, **settings: Any) -> None:
        self.endpoint.update(
            config("second", **settings), retain=frozenset(retain), deployment_config=policy
        )

    def after(self, seconds: float) -> str:
        self.clock.advance(seconds=seconds)
        self.endpoint.tick(self.clock.now())
        return self.endpoint.status

    def routed(self, requests: int) -> list[str]:
        routes = [self.endpoint.choose_route(None) for _ in range(requests)]
        return [route.config_name or "" for route in routes if route]

    def containers(self, name: str) -> list[Any]:
        return [one for v in self.fleets[name].list_variants() for one in v.instances.containers]
