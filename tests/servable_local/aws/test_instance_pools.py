"""examples/variants/instance-pools.toml deployed while the first type is not to be had, then scaled."""

import pytest

from servable.verify.difference import Report
from servable_local.aws.local_aws import LocalAws
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.verified_kind import VerifiedKind, written

pytestmark = pytest.mark.long
FIRST, SECOND, THIRD = "ml.c5.xlarge", "ml.c5d.xlarge", "ml.m5.xlarge"
REGION = "us-east-1"


class Shortage:
    """Reports and counts by type at each moment of one deployment's life."""

    def __init__(self, deployed: VerifiedKind, aws: LocalAws) -> None:
        self.deployed, self._aws = deployed, aws
        self.while_short = self.report()
        self.counts_while_short = self.counts()

    def report(self) -> Report:
        return self.deployed.report()

    def counts(self) -> list[int]:
        described = self.deployed.client("sagemaker").describe_endpoint(
            EndpointName=self.deployed.endpoint
        )
        pools = described["ProductionVariants"][0]["InstancePools"]
        found = {pool["InstanceType"]: pool["CurrentInstanceCount"] for pool in pools}
        return [found[kind] for kind in (FIRST, SECOND, THIRD)]

    def scale(self, count: int) -> list[int]:
        self.deployed.account.change_capacities(
            self.deployed.endpoint, VariantName="primary", DesiredInstanceCount=count
        )
        return self.counts()

    def short_of(self, *types: str) -> None:
        number = self.deployed.account.number
        self._aws.no_capacity(*types, account=number, region=REGION)


@pytest.fixture(scope="module")
def shortage(
    embedded: LocalAws, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> Shortage:
    folder = tmp_path_factory.mktemp("pools")
    loaded = written(folder, "instance-pools", ("ranker",))
    deployed = VerifiedKind(embedded, launcher, loaded, no_capacity=(FIRST,))
    return Shortage(deployed, embedded)


def test_a_deployment_succeeds_on_the_next_type_and_verify_says_so(shortage: Shortage) -> None:
    assert shortage.counts_while_short == [0, 2, 0]
    assert [str(difference) for difference in shortage.while_short.differences] == []
    assert any(
        note.startswith(f"primary runs on 0 x {FIRST}, 2 x {SECOND}, 0 x {THIRD}: AWS had too few")
        for note in shortage.while_short.notes
    )
    assert str(shortage.while_short.patchable).startswith("yes")


def test_scaling_takes_the_next_type_and_frees_the_last_first(shortage: Shortage) -> None:
    shortage.short_of()
    assert [shortage.scale(4), shortage.scale(3), shortage.scale(1)] == [
        [2, 2, 0],
        [2, 1, 0],
        [1, 0, 0],
    ]

    shortage.short_of()
    before = shortage.scale(1)
    shortage.short_of(FIRST)
    assert shortage.scale(2) == [before[0], before[1] + 1, 0]

    shortage.short_of(FIRST, SECOND, THIRD)
    before = shortage.counts()
    assert shortage.scale(sum(before) + 1) == before
