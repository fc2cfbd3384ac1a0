"""One inference component: copies of a model on the instances of an endpoint's variant.

Creating -> InService | Failed; Updating -> InService. TensorFlow Serving was seen as a component on AWS
(https://github.com/hashicorp/terraform-provider-aws/pull/48894, 2026-07-09, at least 1 instance); at zero
nobody has shown it with this image.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws.clock import Clock
from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.container import Container
from servable_local.aws.sagemaker.endpoint import HostedEndpoint
from servable_local.aws.sagemaker.fleet import StartableModel
from servable_local.aws.sagemaker.instances import CopyPlacement, VariantInstances, required

_LOOK_SECONDS = 0.02
# Served model of a Specification, its data fetched into a folder.
Fetch = Callable[[Mapping[str, Any], Path], StartableModel]


@dataclass(frozen=True)
class ComponentDependencies:
    """The resources that a component needs from its account and region."""

    clock: Clock
    fetch: Fetch
    folder: Path
    most_containers: int


class HostedComponent:
    """Copies are counted; `most_containers` of them have a container, and at zero copies there is none."""

    def __init__(
        self,
        request: Mapping[str, Any],
        arn: str,
        endpoint: HostedEndpoint,
        around: ComponentDependencies,
    ) -> None:
        """`request`: CreateInferenceComponent's, with a VariantName."""
        self.name = str(request["InferenceComponentName"])
        self.arn = arn
        self.endpoint = endpoint
        self.variant_name = str(request["VariantName"])
        self.specification: Mapping[str, Any] = request["Specification"]
        self.desired = int(request["RuntimeConfig"]["CopyCount"])
        self.status = "Creating"
        self.failure: str | None = None
        self.created = self.modified = around.clock.now()
        self.image = ""
        self._around = around
        self._archives = Path(tempfile.mkdtemp(prefix="component-", dir=around.folder))
        self._closed = self._replacing = False
        self.copies = self._copies(_no_container)

    @property
    def in_progress(self) -> bool:
        return self.status in ("Creating", "Updating")

    def create(self) -> None:
        """Returns at once, as CreateInferenceComponent does."""
        self._replacing = True
        self._in_background(lambda: self._replace(self.specification))

    def update(self, specification: Mapping[str, Any] | None, copies: int | None) -> None:
        """Start copies of the new specification beside the old ones, which end when all of them serve."""
        with self.endpoint.lock:
            self.refuse_in_progress("updated")
            self._set("Updating")
            self._replacing = specification is not None
            if copies is not None:
                self.desired = copies
        if specification is None:
            self._in_background(self._settle)
        else:
            self._in_background(lambda: self._replace(specification))

    def scale(self, copies: int) -> None:
        """Set the desired count of copies; returns at once. Raises `SageMakerError` while in progress."""
        self.update(None, copies)

    def refuse_in_progress(self, participle: str) -> None:
        """Raises `SageMakerError` while it is created or updated; the words are ours."""
        if self.in_progress:
            raise SageMakerError(
                f'Inference component "{self.arn}" cannot be {participle} while it is {self.status}.'
            )

    def pick(self) -> Container | None:
        """The container of the copy whose turn it is; None at zero copies."""
        return self.copies.pick() if self.copies.serving and self.copies.containers else None

    def tick(self, now: datetime) -> None:
        for container in list(self.copies.containers):
            container.heal()
        with self.endpoint.lock:
            placement, serving = self._placement(), self.copies.serving
            asked = required(self.specification)
            # The fleet may be another one, or smaller, since the last tick.
            if placement is not None and self.status == "InService":
                kept = placement.put(self.name, asked, serving, now)
                self.status = "InService" if kept == serving else "Updating"
        if self.in_progress and not self._replacing:
            self._advance(now, wait=self._around.clock.seconds_per_minute is None)

    def close(self) -> None:
        """End every container, and give its room free. Idempotent."""
        with self.endpoint.lock:
            self._closed, self.desired = True, 0
            now, placement = self._around.clock.now(), self._placement()
            if placement is not None:
                placement.put(self.name, required(self.specification), 0, now)
            self.copies.close()
            self.copies.scale(0, now)
        shutil.rmtree(self._archives, ignore_errors=True)

    def _copies(self, start: Callable[[], Container]) -> VariantInstances:
        variants = self.endpoint.fleet.variants if self.endpoint.fleet else {}
        variant = variants.get(self.variant_name)
        return VariantInstances(
            [],
            0,
            start,
            most_containers=max(1, self._around.most_containers),
            least_containers=0,
            least_outstanding=variant is not None and variant.instances.least_outstanding,
        )

    def _placement(self) -> CopyPlacement | None:
        fleet = self.endpoint.fleet
        variant = fleet.variants.get(self.variant_name) if fleet else None
        if variant is None:
            return None
        variant.instances.faults = self.endpoint.instance_faults
        return variant.placement

    def _in_background(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"component {self.name}", daemon=True).start()

    def _replace(self, specification: Mapping[str, Any]) -> None:
        try:
            folder = Path(tempfile.mkdtemp(dir=self._archives))
            served = self._around.fetch(specification, folder)
            copies = self._copies(served.start)
            with self.endpoint.lock:
                count = self.copies.serving
                copies.scale(min(count, self.desired), self._around.clock.now())
            while not copies.tick(self._around.clock.now(), wait=False) and copies.changing:
                time.sleep(_LOOK_SECONDS)
            if copies.failure is not None:
                copies.close()
                raise RuntimeError(copies.failure)
        except Exception as error:
            self._end("Failed" if self.status == "Creating" else "InService", error)
            return
        with self.endpoint.lock:
            now, placement = self._around.clock.now(), self._placement()
            old, self.copies = self.copies, copies
            if placement is not None:
                placement.put(self.name, required(self.specification), 0, now)
            self.specification, self.image = specification, served.image
            self._replacing = False
            if self._closed:
                copies.close()
            old.scale(0, now)  # each ends after its last answer
        self._settle()

    def _settle(self) -> None:
        while self._advance(self._around.clock.now(), wait=False):
            time.sleep(_LOOK_SECONDS)

    def _advance(self, now: datetime, *, wait: bool) -> bool:
        """Start or end copies as there is room; True while it is still in progress."""
        with self.endpoint.lock:
            placement = self._placement()
            if self._closed or placement is None or not self.in_progress:
                return False
            asked, creating = required(self.specification), self.status == "Creating"
            room = placement.put(self.name, asked, self.desired, now)
            refusal = placement.refusal() if room < self.desired else None
            if room < self.desired and refusal is None:
                # An instance starts; those that serve meanwhile stay.
                room = max(room, min(self.copies.desired, self.desired))
            if room != self.copies.desired:
                self.copies.scale(room, now)
            self.copies.tick(now, wait=wait)
            if self.copies.changing:
                return True
            reason = self.copies.failure or refusal
            if reason is None and self.copies.serving < self.desired:
                return True
            if reason is not None:
                self.desired = placement.put(self.name, asked, self.copies.serving, now)
            self._set("Failed" if reason and creating else "InService", reason)
            return False

    def _end(self, status: str, error: Exception) -> None:
        with self.endpoint.lock:
            self._replacing = False
            self._set(status, str(error) or type(error).__name__)
            if status == "Failed":
                self.desired = 0

    def _set(self, status: str, failure: str | None = None) -> None:
        self.status, self.failure = status, failure
        self.modified = self._around.clock.now()


def _no_container() -> Container:
    raise RuntimeError("no specification was fetched")
