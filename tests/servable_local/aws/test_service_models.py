"""A model that moto's answers share with our clients is the one that moto would read."""

import botocore.session
import pytest

from servable_local.aws import loopback
from servable_local.aws.moto_patches import models

# As moto and botocore alone read, before any test installs the patch.
MODEL, REGIONS, PARTITIONS = models._MODEL, models._REGIONS, models._PARTITIONS
SHARED = ["ssm", "iam", "ecr", "sns", "sts", "cloudwatch", "application-autoscaling", "sagemaker"]
WITH_EXTRAS = ["s3", "sqs"]


def of_clients(service: str) -> object:
    return (
        loopback.botocore_session()
        .get_component("data_loader")
        .load_service_model(service, "service-2")
    )


@pytest.mark.parametrize("service", [*SHARED, *WITH_EXTRAS])
def test_moto_answers_from_the_model_that_it_would_read(service: str) -> None:
    assert models._service_model(service, "service-2") == MODEL(service, "service-2")


@pytest.mark.parametrize("service", SHARED)
def test_a_model_is_read_once_for_clients_and_answers(service: str) -> None:
    assert models._service_model(service, "service-2") is of_clients(service)


@pytest.mark.parametrize("service", WITH_EXTRAS)
def test_clients_do_not_see_moto_s_extras(service: str) -> None:
    models._service_model(service, "service-2")
    assert of_clients(service) != MODEL(service, "service-2")


@pytest.mark.parametrize("service", [*SHARED, *WITH_EXTRAS, "no-such-service"])
@pytest.mark.parametrize("partition", ["aws", "aws-cn"])
def test_a_service_is_in_the_regions_that_any_session_says(service: str, partition: str) -> None:
    own = botocore.session.Session()
    assert models._regions(own, service, partition) == REGIONS(own, service, partition)


def test_endpoints_that_are_no_regions_come_where_they_are_asked_for() -> None:
    own = botocore.session.Session()
    found = models._regions(own, "s3", allow_non_regional=True)
    assert found == REGIONS(own, "s3", allow_non_regional=True)


def test_the_partitions_are_those_that_any_session_says() -> None:
    own = botocore.session.Session()
    assert models._partitions(own) == PARTITIONS(own)
