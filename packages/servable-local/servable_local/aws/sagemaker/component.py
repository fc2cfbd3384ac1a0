"""An inference component: copies of a model on the instances of an endpoint's variant.

Creating -> InService | Failed; Updating -> InService. TensorFlow Serving was seen as a component
on AWS (https://github.com/hashicorp/terraform-provider-aws/pull/48894, 2026-07-09, at least 1
instance); no source shows it at zero instances with this image.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.container import Container
from servable_local.aws.sagemaker.endpoint import HostedEndpoint
from servable_local.aws.sagemaker.fleet import FleetLauncher, Host, StartableModel
from servable_local.aws.sagemaker.instances import (
    CopyPlacement,
    VariantInstances,
    read_requirements,
)

_LOOK_SECONDS = 0.02


class HostedComponent:
    """A component. `most_containers` of its counted copies have a container; at zero, none."""

    def __init__(
        self, request: Mapping[str, Any], arn: str, endpoint: HostedEndpoint, host: Host
    ) -> None:
        """Initialize from CreateInferenceComponent's `request`, which has a VariantName."""
        self.name = str(request["InferenceComponentName"])
        self.arn = arn
        self.endpoint = endpoint
        self.variant_name = str(request["VariantName"])
        self.specification: Mapping[str, Any] = request["Specification"]
        self.desired = int(request["RuntimeConfig"]["CopyCount"])
        self.status = "Creating"
        self.failure: str | None = None
        self.created = self.modified = host.clock.now()
        self.image = ""
        self._host = host
        self._archives = Path(tempfile.mkdtemp(prefix="component-", dir=host.folder))
        self._closed = self._replacing = False
        self.copies = self._create_copies(_raise_no_container)

    @property
    def is_in_progress(self) -> bool:
        return self.status in ("Creating", "Updating")

    def create(self) -> None:
        """Start the creation, and return at once, as CreateInferenceComponent does."""
        self._replacing = True
        self._run_in_background(lambda: self._replace_copies(self.specification))

    def update(self, specification: Mapping[str, Any] | None, copies: int | None) -> None:
        """Start copies of the new specification, if any; the old ones end when all of them serve.

        Set the desired copies, and return at once. Raises `SageMakerError` while in progress.
        """
        with self.endpoint.lock:
            self.reject_in_progress("updated")
            self._set_status("Updating")
            self._replacing = specification is not None
            if copies is not None:
                self.desired = copies
        if specification is None:
            self._run_in_background(self._wait_until_settled)
        else:
            self._run_in_background(lambda: self._replace_copies(specification))

    def reject_in_progress(self, participle: str) -> None:
        """Raise `SageMakerError` while it is created or updated; the wording is ours."""
        if self.is_in_progress:
            raise SageMakerError(
                f'Inference component "{self.arn}" cannot be {participle} while it is {self.status}.'
            )

    def pick(self) -> Container | None:
        """Return the container of the copy whose turn it is; None at zero copies."""
        return self.copies.pick() if self.copies.serving_count and self.copies.containers else None

    def tick(self, now: datetime) -> None:
        for container in list(self.copies.containers):
            container.restart_if_ended()
        with self.endpoint.lock:
            placement, serving = self._find_placement(), self.copies.serving_count
            asked = read_requirements(self.specification)
            # Since the last tick, the fleet may have been replaced or scaled in.
            if placement is not None and self.status == "InService":
                kept = placement.place_copies(self.name, asked, serving, now)
                self.status = "InService" if kept == serving else "Updating"
        if self.is_in_progress and not self._replacing:
            self._advance(now, wait=self._host.clock.seconds_per_minute is None)

    def close(self) -> None:
        """End every container, and free its place. Idempotent."""
        with self.endpoint.lock:
            self._closed, self.desired = True, 0
            now, placement = self._host.clock.now(), self._find_placement()
            if placement is not None:
                placement.place_copies(self.name, read_requirements(self.specification), 0, now)
            self.copies.close()
            self.copies.scale(0, now)
        shutil.rmtree(self._archives, ignore_errors=True)

    def _create_copies(self, start: Callable[[], Container]) -> VariantInstances:
        variants = self.endpoint.fleet.variants if self.endpoint.fleet else {}
        variant = variants.get(self.variant_name)
        copies = VariantInstances([], 0, start, least_containers=0)
        copies.most_containers = max(1, self._host.most_containers)
        copies.least_outstanding = variant is not None and variant.instances.least_outstanding
        return copies

    def _find_placement(self) -> CopyPlacement | None:
        fleet = self.endpoint.fleet
        variant = fleet.variants.get(self.variant_name) if fleet else None
        if variant is None:
            return None
        variant.instances.faults = self.endpoint.instance_faults
        return variant.placement

    def _run_in_background(self, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=f"component {self.name}", daemon=True).start()

    def _prepare(self, specification: Mapping[str, Any], folder: Path) -> StartableModel:
        """Fetch a specification's data into `folder`. Raises `VariantStartError`."""
        launcher = FleetLauncher(self._host, f"/aws/sagemaker/InferenceComponents/{self.name}")
        container = specification.get("Container", {})
        own = [{"ModelDataUrl": container.get("ArtifactUrl"), **container}]
        model_name = specification.get("ModelName")
        containers = launcher.list_containers(model_name) if model_name else own
        startup = specification.get("StartupParameters", {})
        return launcher.prepare_model(containers, self.variant_name, folder, startup)

    def _replace_copies(self, specification: Mapping[str, Any]) -> None:
        try:
            folder = Path(tempfile.mkdtemp(dir=self._archives))
            served = self._prepare(specification, folder)
            copies = self._create_copies(served.start)
            with self.endpoint.lock:
                count = self.copies.serving_count
                copies.scale(min(count, self.desired), self._host.clock.now())
            while not copies.admit_ready(self._host.clock.now(), wait=False) and copies.is_changing:
                time.sleep(_LOOK_SECONDS)
            if copies.failure is not None:
                copies.close()
                raise RuntimeError(copies.failure)
        except Exception as error:
            self._record_failure("Failed" if self.status == "Creating" else "InService", error)
            return
        with self.endpoint.lock:
            now, placement = self._host.clock.now(), self._find_placement()
            old, self.copies = self.copies, copies
            if placement is not None:
                placement.place_copies(self.name, read_requirements(self.specification), 0, now)
            self.specification, self.image = specification, served.image
            self._replacing = False
            if self._closed:
                copies.close()
            old.scale(0, now)  # each ends after its last response
        self._wait_until_settled()

    def _wait_until_settled(self) -> None:
        while self._advance(self._host.clock.now(), wait=False):
            time.sleep(_LOOK_SECONDS)

    def _advance(self, now: datetime, *, wait: bool) -> bool:
        """Start or end copies as there is room. Return True while it is in progress."""
        with self.endpoint.lock:
            placement = self._find_placement()
            if self._closed or placement is None or not self.is_in_progress:
                return False
            asked, creating = read_requirements(self.specification), self.status == "Creating"
            room = placement.place_copies(self.name, asked, self.desired, now)
            refusal = placement.explain_no_room() if room < self.desired else None
            if room < self.desired and refusal is None:
                # While an instance starts, the copies that serve stay.
                room = max(room, min(self.copies.desired, self.desired))
            if room != self.copies.desired:
                self.copies.scale(room, now)
            self.copies.admit_ready(now, wait=wait)
            if self.copies.is_changing:
                return True
            reason = self.copies.failure or refusal
            if reason is None and self.copies.serving_count < self.desired:
                return True
            if reason is not None:
                serving = self.copies.serving_count
                self.desired = placement.place_copies(self.name, asked, serving, now)
            self._set_status("Failed" if reason and creating else "InService", reason)
            return False

    def _record_failure(self, status: str, error: Exception) -> None:
        with self.endpoint.lock:
            self._replacing = False
            self._set_status(status, str(error) or type(error).__name__)
            if status == "Failed":
                self.desired = 0

    def _set_status(self, status: str, failure: str | None = None) -> None:
        self.status, self.failure = status, failure
        self.modified = self._host.clock.now()


def _raise_no_container() -> Container:
    raise RuntimeError("no specification was fetched")
