"""What CloudFormation will ask of SageMaker and Application Auto Scaling is what they take."""

import copy

import pytest

from infra.parameters.finding import Severity
from infra.preflight.check import check
from tests.api_calls import Call, calls, problems
from tests.presets import environments, templates

NAMES = sorted(environments())
# Those that this folder's own tests hold to a list of accepted findings.
KINDS = [name for name in NAMES if name.startswith(("variants/", "scaling/"))]


@pytest.mark.parametrize("name", NAMES)
def test_every_resource_passes_botocores_validation(name: str) -> None:
    asked = [call for template in templates(name).values() for call in calls(template)]
    assert [said for call in asked for said in problems(call)] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_environment_with_variants_asks_for_an_endpoint(name: str) -> None:
    asked = {call[1] for template in templates(name).values() for call in calls(template)}
    of_endpoints = {"CreateEndpointConfig", "CreateEndpoint", "UpdateEndpoint"}
    wanted = of_endpoints if environments()[name].environment.variants else set()
    assert (asked & of_endpoints, "CreateModel" in asked) == (wanted, True)


@pytest.mark.parametrize("name", KINDS)
def test_a_preset_has_no_finding(name: str) -> None:
    found = check(environments()[name])
    assert [str(one) for one in found if one.severity is not Severity.ACKNOWLEDGED] == []


def test_only_an_instance_type_with_settings_of_its_own_has_a_model_of_its_own() -> None:
    found = calls(templates("variants/instance-pools")["endpoint"])
    arguments = next(one[2] for one in found if one[1] == "CreateEndpointConfig")
    pools = arguments["ProductionVariants"][0]["InstancePools"]
    assert ["ModelNameOverride" in pool for pool in pools] == [False, False, True]


@pytest.fixture(scope="module")
def config() -> Call:
    found = calls(templates("variants/serverless")["endpoint"])
    return next(one for one in found if one[1] == "CreateEndpointConfig")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [("MaxConcurrency", 201), ("MaxConcurrency", "5"), ("MemorySizeInMB", 512), ("Memory", 1)],
)
def test_what_the_service_refuses_is_found(config: Call, key: str, wrong: object) -> None:
    service, operation, asked = copy.deepcopy(config)
    asked["ProductionVariants"][0]["ServerlessConfig"][key] = wrong
    assert problems((service, operation, asked))
