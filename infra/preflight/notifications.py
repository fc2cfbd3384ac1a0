"""Who hears of an alarm."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule


class AlarmsAddressTwice(Rule):
    """A topic has one subscription for an address; a second would stop the synthesis."""

    id = "alarms-address-twice"
    example = 'alarms.notify = ["a@example.com", "a@example.com"]'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        lists = {"notify": environment.alarms.notify, "page": environment.alarms.page}
        for key, addresses in lists.items():
            for address in sorted({one for one in addresses if addresses.count(one) > 1}):
                yield self.finding(
                    loaded,
                    f"alarms.{key}",
                    address,
                    f"{address} is there more than once",
                    allowed="each address once",
                    remedy="take the others out",
                )
