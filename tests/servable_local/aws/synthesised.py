"""The project's own templates, synthesised once, and deployed without the CLI.

The archive is a stand-in's: some bytes under the key that the template names. Then, what a rollout of
examples/updates does with a new model that has a fault, minute by minute.
"""

import functools
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.parameters.loading import ValidFile, load
from infra.parameters.rollout import FAULTS
from infra.parameters.sources import list_environment_names
from servable.plan.synthesis import synthesise_endpoint
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.presets import synthesised
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.watched_endpoint import Watched

ENVIRONMENTS = list_environment_names(ROOT / "environments")


def synthesise(**overrides: dict[str, str]) -> dict[str, dict[str, Any]]:
    """{environment: its template}; of those that are overridden alone, where any are."""
    found = load(ROOT, ROOT / "environments", overrides)
    return {
        one.name: synthesise_endpoint(valid(one))
        for one in found
        if one.name in (overrides or ENVIRONMENTS)
    }


def is_baking(described: dict[str, Any]) -> bool:
    """Return whether the new fleet of the endpoint's update has started and gets traffic."""
    variants = described.get("PendingDeploymentSummary", {}).get("ProductionVariants", [])
    return any(
        status["Status"] == "Baking"
        for variant in variants
        for status in variant.get("VariantStatus", [])
    )


class DeployedNames:
    """One environment in an account of its own, whatever account its file names."""

    def __init__(self, account: Account, template: dict[str, Any]) -> None:
        self.account = account
        account.bootstrap()
        self.status = self.deploy(template)

    def deploy(self, template: dict[str, Any], *, wait: bool = True) -> str:
        self.archive = f"archive {random.SystemRandom().random()}".encode()
        url = self.account.put_archive(self.archive, self.archive.decode() + ".tar.gz")
        template = json.loads(json.dumps(template))
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::SageMaker::Model":
                resource["Properties"]["PrimaryContainer"]["ModelDataUrl"] = url
            if resource["Type"] == "AWS::SageMaker::Endpoint":
                self.endpoint: str = resource["Properties"]["EndpointName"]
        self.template = template
        return self.account.deploy(template, wait=wait)

    def describe(self) -> dict[str, Any]:
        return dict(self.account.client("sagemaker").describe_endpoint(EndpointName=self.endpoint))

    def alarms(self, metric: str | None = None) -> list[dict[str, Any]]:
        """The file's alarms on all traffic, by one metric: not on one fleet of an update, nor of scaling."""
        found = self.account.client("cloudwatch").describe_alarms()["MetricAlarms"]
        return [
            one
            for one in found
            if metric in (None, one.get("MetricName"))
            and "EndpointConfigName" not in [d["Name"] for d in one["Dimensions"]]
            and not one["AlarmName"].startswith("TargetTracking-")
        ]

    def containers(self) -> list[Any]:
        """The container of the archive that was deployed last."""
        return self.account.launcher.serving(self.archive)


FOLDER = ROOT / "examples" / "updates"
STRATEGIES = ("all-at-once", "canary", "linear", "rolling")
# Whole minutes of requests, of which each share of a fleet of four gets some.
REQUESTS_A_MINUTE = 8
# Longer than every update of the folder: linear has four steps of 5 minutes, and its last bake.
MOST_MINUTES = 45
BREAK: dict[str, Callable[[StandIn], None]] = {
    "answers 400": lambda one: setattr(one, "status", 400),
    "answers 500": lambda one: setattr(one, "status", 500),
    "answers slowly": lambda one: setattr(one, "seconds", 0.5),
    "answers wrongly": lambda one: setattr(one, "answer", b'{"predictions": [[0.0]]}'),
    "does not answer": lambda one: setattr(one, "hangs_up", True),
}


@dataclass(frozen=True)
class Outcome:
    """`minutes` after its first request; `alarms` are kinds, as `plan` names them. Neither: it went live."""

    minutes: int | None = None
    alarms: tuple[str, ...] = ()


def environment(strategy: str, overrides: dict[str, str] | None = None) -> ValidFile:
    found = load(ROOT, FOLDER, {strategy: overrides or {}})
    return valid(next(one for one in found if one.name == strategy))


@functools.cache
def templates(strategy: str) -> list[dict[str, Any]]:
    """The template as it is, and with another container setting: another configuration, and a new fleet."""
    settings: list[dict[str, str]] = [{}, {"variants.primary.container.tfs_processes": "2"}]
    return [synthesised(environment(strategy, one))["endpoint"] for one in settings]


def measure(account: Account, strategy: str, fault: str) -> Outcome:
    before, after = templates(strategy)
    deployed, watched = DeployedNames(account, before), Watched(account)
    watched.align()
    deployed.deploy(after, wait=False)
    until(lambda: is_baking(deployed.describe()), 60)
    for container in deployed.containers():
        BREAK[fault](container)
    minutes = 0
    while minutes < MOST_MINUTES and deployed.describe()["EndpointStatus"] != "InService":
        watched.minutes(1, REQUESTS_A_MINUTE, deployed.endpoint)
        minutes += 1
    if account.settled() == "UPDATE_COMPLETE":
        return Outcome()
    reason = deployed.describe().get("FailureReason", "")
    alarms = re.findall(r"-rollback-(?:primary-)?([\w-]+)-[0-9a-f]{8}", reason)
    return Outcome(minutes, tuple(alarms))


def predicted(strategy: str, fault: str) -> Outcome:
    """What `plan` says; the local AWS sends no golden requests, whose alarm is the first."""
    loaded = environment(strategy).environment
    assert loaded.rollout is not None
    seen = loaded.rollout.list_alarms_for_fault(fault, loaded.alarms, kind=loaded.kind)
    kinds = tuple(kind for kind in seen if kind != "golden-requests")
    return Outcome(loaded.window_minutes, kinds) if kinds else Outcome()


def row(strategy: str, outcomes: dict[str, Outcome]) -> str:
    """A row of the table on docs/updating.md."""
    cells = [
        "goes live"
        if (one := outcomes[fault]).minutes is None
        else f"back after {one.minutes} min: {', '.join(one.alarms)}"
        for fault in FAULTS
    ]
    return f"| {strategy} | {' | '.join(cells)} |"
