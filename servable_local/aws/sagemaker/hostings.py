"""What is hosted in every account and region of the server."""

import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from servable_local.aws.cloudwatch.cloudwatches import CloudWatches
from servable_local.aws.loopback import Access, Loopback
from servable_local.aws.sagemaker.endpoint import Endpoint
from servable_local.aws.sagemaker.hosting import Hosting
from servable_local.aws.sagemaker.launching import Launch
from servable_local.aws.sagemaker.published_metrics import publish_utilisation


class Hostings:
    """Of every account and region of the server."""

    def __init__(
        self, access: Access, launch: Launch, folder: Path, cloudwatches: CloudWatches
    ) -> None:
        self._access = access
        self._cloudwatches = cloudwatches
        self._launch = launch
        self._folder = folder
        self._all: dict[tuple[str, str], Hosting] = {}
        self._lock = threading.Lock()

    def of(self, account: str, region: str) -> Hosting:
        with self._lock:
            key = (account, region)
            if key not in self._all:
                aws = Loopback(self._access, account=account, region=region)
                self._all[key] = Hosting(
                    aws,
                    self._launch,
                    self._folder,
                    self._cloudwatches.clock,
                    self._cloudwatches.of(account, region),
                )
            return self._all[key]

    def endpoints(self) -> Iterator[Endpoint]:
        for hosting in list(self._all.values()):
            yield from list(hosting.endpoints.values())

    def measure(self, at: datetime) -> None:
        """What containers take of this machine, once a minute."""
        for hosting in list(self._all.values()):
            for endpoint in list(hosting.endpoints.values()):
                fleet = endpoint.fleet
                for variant in fleet.everybody() if fleet else ():
                    publish_utilisation(
                        hosting.cloudwatch.metrics, at, endpoint=endpoint.name, variant=variant
                    )

    def tick(self, at: datetime) -> None:
        for endpoint in self.endpoints():
            endpoint.tick(at)

    def close(self) -> None:
        """Ends every endpoint's processes, at the end of the server."""
        threads = [threading.Thread(target=one.close) for one in self.endpoints()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def clear(self) -> None:
        """Of every account. Endpoints are closed before."""
        with self._lock:
            self._all.clear()
