"""An endpoint: its state, the fleet that serves, and the fleet that replaces it.

The module is long because every step holds the same lock: a request, the clock, an update, and
a deletion may occur in any order.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from servable_local.aws.clock import Clock
from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.container import VariantStartError
from servable_local.aws.sagemaker.endpoint_update import EndpointUpdate, InAlarm
from servable_local.aws.sagemaker.fleet import Fleet, HostedVariant, Turns
from servable_local.aws.sagemaker.instances import InstanceFaults

# EventBridge's kinds of events about endpoints.
STATE = "SageMaker Endpoint State Change"
DEPLOYMENT = "SageMaker Endpoint Deployment State Change"
Config = Mapping[str, Any]
_DEQUEUE_SECONDS = 0.05  # real time, a tick of the quickest clock
_IN_PROGRESS = ("Creating", "Updating", "RollingBack", "Deleting")


@dataclass(frozen=True)
class EndpointDependencies:
    """The resources that an endpoint needs from its account and region."""

    clock: Clock
    start: Callable[[str], Fleet]  # by the name of an endpoint configuration
    in_alarm: InAlarm
    send_event: Callable[[str], None]  # by its kind


@dataclass(frozen=True)
class Route:
    """The variant for a request. `config_name` is only set while an update is watched."""

    variant: HostedVariant
    config_name: str | None
    shadow: HostedVariant | None = None
    """Shadow variant that gets a copy of the request."""


def list_specified_variants(config: Config) -> list[Mapping[str, Any]]:
    """Return the production variants and shadow variants of a configuration."""
    return [*config["ProductionVariants"], *config.get("ShadowProductionVariants", [])]


class HostedEndpoint:
    """An endpoint: Creating -> InService | Failed; Updating [-> RollingBack] -> InService."""

    def __init__(
        self, name: str, arn: str, config: Config, dependencies: EndpointDependencies
    ) -> None:
        self.name = name
        self.arn = arn
        self.config = config
        self.status = "Creating"
        self.failure: str | None = None
        self.created = self.modified = dependencies.clock.now()
        self.deployment_config: Mapping[str, Any] | None = None
        self.capture: Mapping[str, Any] | None = config.get("DataCaptureConfig")
        # Fault injection: seconds that SageMaker itself adds to every request.
        self.overhead_seconds = 0.0
        self.instance_faults = InstanceFaults()
        self.queue: dict[str, datetime] = {}
        """Asynchronous requests without a response: number to time of arrival."""
        self._dependencies = dependencies
        self.fleet: Fleet | None = None
        self.rollout: EndpointUpdate | None = None
        self.pending: tuple[Config, datetime] | None = (config, self.created)
        """The configuration of a creation or update in progress and its start, or None."""
        self._turns = Turns()
        self._deleted = False
        self._settling = False  # whether it stays Updating until a tick
        self._arrived: list[HostedVariant] = []
        self.lock = threading.RLock()

    @property
    def kind(self) -> str:
        """Return the kind of endpoint: real_time, serverless, or asynchronous."""
        if "AsyncInferenceConfig" in self.config:
            return "asynchronous"
        variants = self.config["ProductionVariants"]
        return "serverless" if any("ServerlessConfig" in v for v in variants) else "real_time"

    @property
    def is_in_progress(self) -> bool:
        return self.status in _IN_PROGRESS

    def reject_in_progress(self) -> None:
        """Raise `SageMakerError` while something is in progress."""
        if self.is_in_progress:
            raise SageMakerError(f'Cannot update in-progress endpoint "{self.arn}".')

    def create(self) -> None:
        """Start the creation, and return at once, as CreateEndpoint does."""
        self._dependencies.send_event(STATE)
        self._run_in_background(lambda: self._start_fleet(self.config, frozenset()))

    def update(
        self, config: Config, *, retain: frozenset[str], deployment_config: Mapping[str, Any] | None
    ) -> None:
        """Start an update. `retain`: DesiredInstanceCount, DesiredWeight of the old fleet."""
        with self.lock:
            self.reject_in_progress()
            self._set_status("Updating")
            self.pending = (config, self.modified)
            self.deployment_config = deployment_config
        self._dependencies.send_event(STATE)
        self._run_in_background(lambda: self._start_fleet(config, retain))

    def delete(self, gone: Callable[[], None]) -> None:
        """Start the deletion, and return at once; call `gone` when all containers have ended."""
        with self.lock:
            self.reject_in_progress()
            self._set_status("Deleting")
        self._dependencies.send_event(STATE)

        def finish_deletion() -> None:
            self.close()
            gone()

        self._run_in_background(finish_deletion)

    def close(self) -> None:
        """End its containers; a fleet that is still starting ends once it has started."""
        with self.lock:
            self._deleted, fleets = True, self._list_fleets()
            self.fleet = self.rollout = None
        for fleet in fleets:
            fleet.close()

    def _list_fleets(self) -> list[Fleet]:
        """Return the fleet that serves and the one that replaces it, as far as they exist."""
        both = (self.fleet, self.rollout.fleet if self.rollout else None)
        return [fleet for fleet in both if fleet is not None]

    def choose_route(self, variant_name: str | None) -> Route | None:
        """Choose a route; None if nothing serves. Raises `KeyError` for a missing variant."""
        with self.lock:
            fleet, rollout = self.fleet, self.rollout
        if fleet is None:
            return None
        if rollout is not None:
            share = rollout.stage.share
            if self._turns.choose_next({"new": share, "old": 1 - share}) == "new":
                fleet = rollout.fleet
        variant = fleet.variants[variant_name] if variant_name else fleet.choose_variant()
        config_name = fleet.config_name if rollout is not None else None
        return Route(variant, config_name, fleet.choose_shadow(variant))

    def wait_for_route(self, variant_name: str) -> Route | None:
        """Wait until an instance serves the variant; None if the endpoint is deleted meanwhile."""
        route = self.choose_route(variant_name)
        while route and not route.variant.instances.serving_count:
            time.sleep(_DEQUEUE_SECONDS)
            route = self.choose_route(variant_name)
        return route

    def tick(self, now: datetime) -> None:
        """Advance an update to its next stage, its end, or a rollback, by the clock."""
        with self.lock:
            rollout, fleets = self.rollout, self._list_fleets()
        for variant in [each for fleet in fleets for each in fleet.list_variants()]:
            for container in list(variant.instances.containers):
                container.restart_if_ended()
        if rollout is not None:
            self._advance_rollout(rollout, now)
        else:  # on a clock that stands still, wait for instances that are due
            stands_still = self._dependencies.clock.seconds_per_minute is None
            if self._admit_instances(now, wait=stands_still, ticked=True):
                self._dependencies.send_event(DEPLOYMENT)

    def scale(self, counts: Mapping[str, int], *, until_tick: bool = False) -> None:
        """Set the desired instance counts of variants; Updating until all are there.

        `until_tick`: Updating at least until the clock's next tick, also if nothing has to start.
        Raises `SageMakerError` while something else is in progress.
        """
        with self.lock:
            if self.is_in_progress or self.fleet is None:
                raise SageMakerError(f'Cannot update in-progress endpoint "{self.arn}".')
            variants = {variant.name: variant for variant in self.fleet.list_variants()}
            for name, count in counts.items():
                variants[name].instances.faults = self.instance_faults
                variants[name].instances.scale(count, self._dependencies.clock.now())
            self._settling = until_tick
            if until_tick or any(variant.instances.is_changing for variant in variants.values()):
                self._set_status("Updating")
        self._admit_instances(self._dependencies.clock.now(), wait=False)
        self._dependencies.send_event(DEPLOYMENT)

    def _admit_instances(self, now: datetime, *, wait: bool, ticked: bool = False) -> bool:
        """Return whether the endpoint has just settled. `ticked`: at a tick of the clock."""
        with self.lock:
            everybody = self.fleet.list_variants() if self.fleet else []
            arrived = [each for each in everybody if each.instances.admit_ready(now, wait=wait)]
            self._arrived += arrived
            changing = any(each.instances.is_changing for each in everybody)
            settled = ticked if self._settling else bool(self._arrived)
            if not settled or changing or self.status != "Updating" or self.rollout is not None:
                return False
            failure = self._arrived[0].instances.failure if self._arrived else None
            self._settling, self._arrived = False, []
            self._set_status("InService", failure)
            return True

    def _run_in_background(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"endpoint {self.name}", daemon=True).start()

    def _set_status(self, status: str, failure: str | None = None) -> None:
        if status in ("InService", "Failed"):
            self.pending = None
        self.status, self.failure = status, failure
        self.modified = self._dependencies.clock.now()

    def _start_fleet(self, config: Config, retain: frozenset[str]) -> None:
        try:
            fleet = self._dependencies.start(config["EndpointConfigName"])
        except Exception as error:
            expected = isinstance(error, VariantStartError)
            reason = str(error) if expected else f"Internal failure of the local AWS: {error!r}"
            with self.lock:
                # If an update fails, the old fleet continues to serve.
                self._set_status("InService" if self.fleet is not None else "Failed", reason)
            self._dependencies.send_event(STATE)
            return
        with self.lock:
            gone, old = self._deleted, self.fleet
            if not gone and old is not None:
                fleet.retain(old, retain)
                now = self._dependencies.clock.now()
                rollout = EndpointUpdate(fleet, config, self.deployment_config, now)
                self.rollout = rollout
            elif not gone:
                self._serve_fleet(fleet, config)
        if gone:
            fleet.close()
        elif old is None:
            self._dependencies.send_event(STATE)
        else:
            self._advance_rollout(rollout, now)

    def _advance_rollout(self, rollout: EndpointUpdate, now: datetime) -> None:
        with self.lock:
            if self.rollout is not rollout:
                return  # deleted meanwhile, or advanced by the clock
            trouble = rollout.explain_rollback(now, self._dependencies.in_alarm)
            before = rollout.stage
            through = trouble is None and rollout.advance(now)
            if trouble is None and not through:
                event = DEPLOYMENT if rollout.stage != before or now == rollout.started else None
                ended = None
            else:
                self.rollout = None
                event, ended = STATE, self.fleet if through else rollout.fleet
                if through:
                    self._serve_fleet(rollout.fleet, rollout.config)
                else:
                    self._set_status("RollingBack", trouble)
        if event:
            self._dependencies.send_event(event)
        if ended is None:
            return
        self._run_in_background(ended.close)
        if trouble is not None:
            with self.lock:
                if not self._deleted:
                    self._set_status("InService", trouble)
            self._dependencies.send_event(STATE)

    def _serve_fleet(self, fleet: Fleet, config: Config) -> None:
        self.fleet, self.config = fleet, config
        self.capture = config.get("DataCaptureConfig")
        self._set_status("InService")
