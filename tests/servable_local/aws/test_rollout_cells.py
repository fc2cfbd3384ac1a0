"""What a rollout does with a faulty model is what docs/updating.md and `plan` say: five of its cells."""

import pytest

from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.rollout_cells import Cells, predicted

pytestmark = pytest.mark.long
# One of each fault and each strategy, of which wrong answers go live.
FIVE = [
    ("canary", "answers 500"),
    ("linear", "answers 400"),
    ("rolling", "answers slowly"),
    ("all-at-once", "answers wrongly"),
    ("canary", "does not answer"),
]


@pytest.fixture(scope="module")
def cells(embedded: LocalAws, launcher: Launcher, clock: ManualClock, server: Server) -> Cells:
    return Cells(embedded, launcher, clock, server)


@pytest.mark.parametrize(("strategy", "fault"), FIVE)
def test_an_update_ends_as_predicted(strategy: str, fault: str, cells: Cells) -> None:
    assert cells.measured(strategy, fault) == predicted(strategy, fault)
