"""CloudWatch of every account and region of the server."""

import threading
from dataclasses import dataclass
from datetime import datetime

from servable_local.aws.clock import Clock
from servable_local.aws.cloudwatch.alarms import Alarms
from servable_local.aws.cloudwatch.metric_store import KEPT, MetricStore
from servable_local.aws.loopback import Access, Loopback


@dataclass
class CloudWatch:
    metrics: MetricStore
    alarms: Alarms


class CloudWatches:
    """They come into being when they are first asked for."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self.clock = clock
        self._all: dict[tuple[str, str], CloudWatch] = {}
        self._lock = threading.Lock()

    def of(self, account: str, region: str) -> CloudWatch:
        with self._lock:
            key = (account, region)
            if key not in self._all:
                aws = Loopback(self._access, account=account, region=region)
                metrics = MetricStore()
                self._all[key] = CloudWatch(metrics, Alarms(aws, metrics, self.clock))
            return self._all[key]

    def tick(self, at: datetime) -> None:
        with self._lock:
            everywhere = list(self._all.values())
        for one in everywhere:
            one.alarms.tick(at)
            if at.minute % 10 == 0 and at.second == 0:
                one.metrics.forget(at - KEPT)

    def clear(self) -> None:
        """Metrics and alarms of every account."""
        with self._lock:
            self._all.clear()
