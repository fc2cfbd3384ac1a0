"""An endpoint of a stack: CloudFormation waits until it serves, and says why it does not."""

from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.resources import resource_type, sagemaker
from servable_local.aws.resources.resource_type import ResourceError
from servable_local.aws.resources.sagemaker import SageMakerEndpoint

ARN = "arn:aws:sagemaker:us-east-1:123456789012:endpoint/ranker"
WANTED = {"EndpointName": "ranker", "EndpointConfigName": "second", "Tags": []}


def described(status: str = "InService", config: str = "second") -> dict[str, str]:
    return {"EndpointName": "ranker", "EndpointConfigName": config, "EndpointStatus": status}


class Logical:
    """Answers DescribeEndpoint with one state after the other, and remembers the calls."""

    def __init__(self, *states: dict[str, str], fails: str = "") -> None:
        self.states = list(states)
        self.fails = fails
        self.calls: list[tuple[str, Any]] = []
        self.existing: list[str] = []

    def call(self, service: str, operation: str, given: Any) -> Any:
        if operation == "DescribeEndpoint":
            return self.states.pop(0) if len(self.states) > 1 else self.states[0]
        self.calls.append((operation, given))
        if self.fails:
            raise ClientError({"Error": {"Message": self.fails}}, operation)
        return {"EndpointArn": ARN}

    update_tags = resource_type.Logical.update_tags

    def client(self, service: str) -> Any:
        return SimpleNamespace(exceptions=SimpleNamespace(ClientError=ClientError))

    def exists(self, physical: str) -> None:
        self.existing.append(physical)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds between looks, in which nobody waits."""
    seconds: list[float] = []
    monkeypatch.setattr(sagemaker, "time", SimpleNamespace(sleep=seconds.append))
    return seconds


def create(logical: Any) -> Any:
    return SageMakerEndpoint().create({**WANTED, "RetainDeploymentConfig": True}, logical)


def update(logical: Any) -> Any:
    return SageMakerEndpoint().update(ARN, {"Tags": []}, WANTED, logical)


def delete(logical: Any) -> None:
    SageMakerEndpoint().delete(ARN, {}, logical)


def test_an_endpoint_is_created_and_known_before_it_serves() -> None:
    logical = Logical(described())
    assert create(logical).physical_id == ARN
    assert logical.calls == [("CreateEndpoint", WANTED)]

    logical = Logical(described("Failed"))
    with pytest.raises(ResourceError):
        create(logical)
    assert logical.existing == [ARN]


def test_an_endpoint_that_is_in_progress_is_looked_at_ever_more_rarely(pauses: list[float]) -> None:
    for status in ("Creating", "Updating", "SystemUpdating", "RollingBack"):
        pauses.clear()
        create(Logical(described(status), described(status), described()))
        assert pauses == [0.01, 0.015]
    pauses.clear()
    create(Logical(*[described("Creating")] * 9, described()))
    assert (pauses == sorted(pauses), pauses[-2:]) == (True, [0.1, 0.1])


def test_an_endpoint_is_updated_unless_it_serves_the_configuration() -> None:
    logical = Logical(described(config="first"), described("Updating"), described())
    assert update(logical).attributes["EndpointName"] == "ranker"
    names = {"EndpointName": "ranker", "EndpointConfigName": "second"}
    assert logical.calls == [("UpdateEndpoint", names)]

    logical = Logical(described())
    update(logical)
    assert logical.calls == []

    logical = Logical(described("Failed"), described())
    update(logical)
    assert [operation for operation, _ in logical.calls] == ["UpdateEndpoint"]


def test_an_endpoint_that_does_not_serve_what_it_should_fails() -> None:
    first, failed = described(config="first"), described("Failed")
    for logical, ask, reason in (
        (Logical(failed | {"FailureReason": "no ping"}), create, "no ping"),
        (Logical(failed), create, "Failed"),
        (Logical(first, first | {"FailureReason": "taken back"}), update, "taken back"),
        (Logical(first, failed), update, "Failed"),
    ):
        with pytest.raises(ResourceError, match=f"^{reason}$"):
            ask(logical)


def test_an_endpoint_is_deleted_unless_it_is_gone() -> None:
    logical = Logical(described(), fails=f'Could not find endpoint "{ARN}".')
    delete(logical)
    assert [operation for operation, _ in logical.calls] == ["DeleteEndpoint"]
    with pytest.raises(ClientError, match="Cannot update in-progress endpoint"):
        delete(Logical(described(), fails="Cannot update in-progress endpoint"))
