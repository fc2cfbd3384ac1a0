"""What a rollout of examples/updates does with a new model that has a fault, minute by minute."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from infra.parameters.loading import ValidFile, load
from infra.parameters.rollout import FAULTS
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.presets import synthesised
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.container_stand_in import StandIn
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.synthesised import DeployedNames, is_baking
from tests.servable_local.aws.watched_endpoint import Watched

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
