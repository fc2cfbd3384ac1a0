"""The regions of a service, found in a part of its model, are those that botocore finds in all of it."""

import botocore.session
import pytest

from servable_local.aws.moto_patches import regions

# As botocore alone answers, before any test installs the patch.
WHOLE = regions._WHOLE
SERVICES = ["s3", "iam", "cloudwatch", "ecr", "sagemaker", "application-autoscaling", "ssm"]


@pytest.mark.parametrize("service", [*SERVICES, pytest.param("ec2", marks=pytest.mark.long)])
@pytest.mark.parametrize("partition", ["aws", "aws-cn", "aws-us-gov"])
def test_a_service_is_in_the_regions_that_its_whole_model_leads_to(
    service: str, partition: str
) -> None:
    session = botocore.session.Session()
    found = regions._available_regions(session, service, partition)
    assert found == WHOLE(session, service, partition)


def test_endpoints_that_are_no_regions_come_where_they_are_asked_for() -> None:
    session = botocore.session.Session()
    found = regions._available_regions(session, "s3", allow_non_regional=True)
    assert found == WHOLE(session, "s3", allow_non_regional=True)


def test_an_unknown_service_is_nowhere() -> None:
    assert regions._available_regions(botocore.session.Session(), "no-such-service") == []


def test_every_model_of_botocore_says_its_prefix_where_it_is_looked_for() -> None:
    services = botocore.session.Session().get_available_services()
    assert [name for name in services if regions._endpoint_prefix(name) is None] == []
