"""What `servable plan` says of a variant that the file no longer has, where no revision is known."""

import argparse
import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from infra.parameters.loading import ValidFile, load
from infra.policy.update import DeployedVariant
from servable.plan.live import LiveState, _read_endpoint_state
from servable.plan.plan import Deploy, build_plan
from tests.checkouts import ROOT
from tests.servable.test_cost import environment


def template(config: str) -> dict[str, object]:
    properties = {"EndpointName": "ranker-staging", "EndpointConfigName": config}
    return {
        "Resources": {"Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": properties}}
    }


def deploys(removed: DeployedVariant) -> list[Deploy]:
    (loaded,) = [one for one in load(ROOT, ROOT / "environments", {}) if one.name == "staging"]
    assert isinstance(loaded, ValidFile)
    # With [rollout] variants keep their names: SageMaker would refuse the removal itself.
    unguarded = loaded.environment.model_copy(update={"rollout": None})
    loaded = replace(loaded, draft=unguarded)
    now = LiveState(
        stack_status="UPDATE_COMPLETE",
        template=template("two variants"),
        endpoint_name="ranker-staging",
        endpoint_status="InService",
        variants={"second": removed},
    )
    return build_plan(
        loaded, now, template("one"), against="what is live", folder="environments"
    ).deploys


def let_go(removed: DeployedVariant) -> argparse.Namespace:
    """The first command, as the AWS CLI reads it."""
    words = shlex.split(deploys(removed)[0].command)
    assert words[:3] == ["aws", "application-autoscaling", "deregister-scalable-target"]
    parser = argparse.ArgumentParser(exit_on_error=False)
    for name in ("service-namespace", "resource-id", "scalable-dimension", "region"):
        parser.add_argument(f"--{name}", required=True)
    return parser.parse_args(words[3:])


SCALED = DeployedVariant(instance_type="ml.c5.xlarge", scales=True)
SERVERLESS = DeployedVariant(instance_type=None, scales=True)


def test_scaling_lets_go_of_a_removed_variant_and_then_the_file_is_deployed() -> None:
    assert let_go(SCALED).resource_id == "endpoint/ranker-staging/variant/second"
    assert let_go(SCALED).scalable_dimension == "sagemaker:variant:DesiredInstanceCount"
    dimension = "sagemaker:variant:DesiredProvisionedConcurrency"
    assert let_go(SERVERLESS).scalable_dimension == dimension
    assert deploys(SCALED)[1].command == "cdk deploy 'staging/*'"


def test_what_is_live_is_known_with_its_shadow_and_its_queue() -> None:
    endpoint = {"EndpointName": "ranker-staging", "EndpointConfigName": "c", "EndpointStatus": "?"}
    config = {
        "ProductionVariants": [{"VariantName": "a", "InstanceType": "ml.c5.xlarge"}],
        "ShadowProductionVariants": [{"VariantName": "b", "InstanceType": "ml.c5.xlarge"}],
        "AsyncInferenceConfig": {},
    }
    paginator = SimpleNamespace(paginate=lambda **_: [{"ScalableTargets": [], "logGroups": []}])
    answers: dict[str, Any] = {
        "describe_stacks": {"Stacks": [{"StackStatus": "UPDATE_COMPLETE"}]},
        "get_template": {"TemplateBody": template("c")},
        "describe_endpoint": endpoint,
        "describe_endpoint_config": config,
        "get_paginator": paginator,
    }
    clients = SimpleNamespace(
        **{name: lambda *_, _answer=answer, **__: _answer for name, answer in answers.items()}
    )
    found = _read_endpoint_state(environment(), "staging-endpoint", lambda service: clients)
    shadows = {name: variant.shadow for name, variant in found.variants.items()}
    assert (shadows, found.queued) == ({"a": False, "b": True}, True)
