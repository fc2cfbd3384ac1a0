"""An endpoint of one account, its traffic, its alarms and the clock, as tests move them."""

import contextlib
from typing import Any

from botocore.exceptions import ClientError

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import REGION
from servable_local.aws.sagemaker.endpoint import HostedEndpoint
from servable_local.aws.sagemaker.hosting import close_endpoints
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.local_account import Account


def forget_everything(server: Server) -> None:
    """Ends every endpoint; metrics and alarms of every account are gone with them."""
    close_endpoints(server.hostings)
    for regions in (server.hostings, server._scalings, server._cloudwatches):
        regions._all.clear()


class Watched:
    """`minute` is the unit: some requests, then the minute passes and alarms are evaluated."""

    def __init__(self, account: Account, clock: ManualClock | None = None) -> None:
        self.account = account
        self.clock = clock or account.launcher.clock

    def another(self) -> "Watched":
        """Watch another account, in which nothing is deployed."""
        return Watched(self.account.another())

    def align(self) -> None:
        """To the beginning of a minute, so that a test's first minute is a whole one."""
        self.clock.advance(seconds=60 - self.clock.now().second)

    def ask(
        self, times: int = 1, endpoint: str = "ranker", region: str = REGION, *, body: bytes = b"x"
    ) -> None:
        """Whatever the answer is."""
        runtime = self._client("sagemaker-runtime", region)
        for _ in range(times):
            with contextlib.suppress(ClientError):
                runtime.invoke_endpoint(EndpointName=endpoint, Body=body)

    def minutes(
        self, count: int, requests: int = 1, endpoint: str = "ranker", region: str = REGION
    ) -> None:
        for _ in range(count):
            self.ask(requests, endpoint, region)
            self.clock.advance(minutes=1)

    def state(self, alarm: str, region: str = REGION) -> str:
        alarms = self._client("cloudwatch", region).describe_alarms(
            AlarmNames=[alarm], AlarmTypes=["MetricAlarm", "CompositeAlarm"]
        )
        (state,) = (one["StateValue"] for one in alarms["MetricAlarms"] + alarms["CompositeAlarms"])
        return str(state)

    def statistic(self, name: str, statistic: str, **dimensions: str) -> Any:
        """The metric's statistic of the last hour and this minute, in one period; None without data."""
        of = {"EndpointName": "ranker", "VariantName": "primary"} | dimensions
        found = self.account.datapoints(
            f"AWS/SageMaker:{name}", statistic, hours=24, period=86400 * 365, **of
        )
        if not found:
            return None
        (point,) = found
        return point.get(statistic, point.get("ExtendedStatistics", {}).get(statistic))

    def containers(self, archive: bytes) -> list[StandIn]:
        return self.account.launcher.serving(archive)

    def inside(self, name: str = "ranker") -> HostedEndpoint:
        """The endpoint itself, for its faults."""
        return self.account.hosting.endpoints.find(name)

    def _client(self, service: str, region: str) -> Any:
        return self.account.aws.client(service, account=self.account.number, region=region)
