"""A model that moto's answers share with our clients is the one that moto would read."""

from types import SimpleNamespace
from typing import cast

import botocore.session
import pytest
from moto.iam.models import IAMBackend, ManagedPolicy, Role

from servable_local.aws import loopback
from servable_local.aws.moto_patches import every_service

# As moto and botocore alone read, before any test installs the patch.
MODEL, REGIONS, PARTITIONS = every_service._MODEL, every_service._REGIONS, every_service._PARTITIONS
POLICIES = every_service._POLICIES
SHARED = ["ssm", "iam", "ecr", "sns", "sts", "cloudwatch", "application-autoscaling", "sagemaker"]
WITH_EXTRAS = ["s3", "sqs"]


def of_clients(service: str) -> object:
    return (
        loopback.load_botocore_session()
        .get_component("data_loader")
        .load_service_model(service, "service-2")
    )


@pytest.mark.parametrize("service", [*SHARED, *WITH_EXTRAS])
def test_moto_answers_from_the_model_that_it_would_read(service: str) -> None:
    assert every_service._load_service_model(service, "service-2") == MODEL(service, "service-2")


@pytest.mark.parametrize("service", SHARED)
def test_a_model_is_read_once_for_clients_and_answers(service: str) -> None:
    assert every_service._load_service_model(service, "service-2") is of_clients(service)


@pytest.mark.parametrize("service", WITH_EXTRAS)
def test_clients_do_not_see_moto_s_extras(service: str) -> None:
    every_service._load_service_model(service, "service-2")
    assert of_clients(service) != MODEL(service, "service-2")


@pytest.mark.parametrize("service", [*SHARED, *WITH_EXTRAS, "no-such-service"])
@pytest.mark.parametrize("partition", ["aws", "aws-cn"])
def test_a_service_is_in_the_regions_that_any_session_says(service: str, partition: str) -> None:
    own = botocore.session.Session()
    assert every_service._list_regions(own, service, partition) == REGIONS(own, service, partition)


def test_regions_and_partitions_are_those_that_any_session_says() -> None:
    own = botocore.session.Session()
    found = every_service._list_regions(own, "s3", allow_non_regional=True)
    assert found == REGIONS(own, "s3", allow_non_regional=True)
    own = botocore.session.Session()
    assert every_service._list_partitions(own) == PARTITIONS(own)


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> list[IAMBackend]:
    """IAM of two accounts, with AWS's managed policies."""
    monkeypatch.setenv("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")
    every_service.install()
    return [IAMBackend("aws", "1" * 12), IAMBackend("aws", "2" * 12)]


def test_an_account_has_motos_managed_policies(backends: list[IAMBackend]) -> None:
    def shown(policies: list[ManagedPolicy]) -> list[dict[str, object]]:
        return [
            vars(policy)  # an id is drawn by moto
            | {"id": "", "arn": policy.arn, "versions": [*map(vars, policy.versions)]}
            for policy in policies
        ]

    assert shown(backends[1].aws_managed_policies) == shown(POLICIES(backends[1]))


def test_what_one_account_attaches_is_attached_in_it_alone(backends: list[IAMBackend]) -> None:
    first, second = ({p.name: p for p in one.aws_managed_policies} for one in backends)
    role = SimpleNamespace(managed_policies={})
    first["ReadOnlyAccess"].attach_to(cast(Role, role))
    assert second["ReadOnlyAccess"].attachment_count == 0
