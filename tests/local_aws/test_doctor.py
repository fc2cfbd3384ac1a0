"""`servable doctor`: what is missing, each with how to mend it; and what could not be asked."""

from pathlib import Path

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from local.aws import EmbeddedAws
from operations.deployed_account import Account
from operations.doctor import Look, account, machine, needed
from tests.checkouts import ROOT
from tests.operations.test_cost import environment


def asked(embedded: EmbeddedAws, number: str = "111111111111") -> dict[str, Look]:
    told = Account(region="us-west-2", number=number, aws=embedded)
    return {one.name: one for one in account(environment(rps=10), told)}


def test_this_machine_has_what_it_takes() -> None:
    assert [one.name for one in machine(ROOT) if one.state != "ok"] == []


def test_a_machine_without_node_is_told_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    looks = {one.name: one for one in machine(tmp_path)}
    assert (looks["Node"].state, looks["Node"].mend) == (
        "problem",
        "`make install` brings its own",
    )


def test_an_account_without_bootstrap_is_a_problem_with_its_command(embedded: EmbeddedAws) -> None:
    assert asked(embedded)["bootstrap"].mend == "`cdk bootstrap aws://111111111111/us-west-2`"


def test_credentials_of_another_account_are_a_problem(embedded: EmbeddedAws) -> None:
    assert asked(embedded, "222222222222")["credentials"].state == "problem"


class Silent(Account):
    """An account whose answer is an error."""

    def __init__(self, wrong: Exception) -> None:
        self.wrong = wrong

    def identity(self) -> dict[str, str]:
        raise self.wrong


def test_without_credentials_nothing_else_is_asked() -> None:
    looks = list(account(environment(), Silent(NoCredentialsError())))
    assert [(one.name, one.state) for one in looks] == [("credentials", "problem")]


def test_offline_it_says_what_could_not_be_asked() -> None:
    wrong = EndpointConnectionError(endpoint_url="https://sts")
    (look,) = account(environment(), Silent(wrong))
    assert (look.state, look.said.startswith("could not ask")) == ("open", True)


def test_the_quota_must_hold_both_fleets_of_an_update() -> None:
    found = needed(environment(2, 12, rollout={"strategy": "canary"}))
    assert found == {"ml.c5.xlarge": 24}
