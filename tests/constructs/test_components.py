"""Components of a variant: what they deploy, and combinations of keys that are refused."""

from dataclasses import dataclass
from typing import Any

import pytest

from infra.preflight.check import check_all, select_errors
from tests.api_calls import calls, problems
from tests.conftest import VALID, Environment
from tests.constructs.conftest import CALLERS, Synthesise, Synthesised, with_keys

COMPONENT, CONFIG = "AWS::SageMaker::InferenceComponent", "AWS::SageMaker::EndpointConfig"
TARGET = "AWS::ApplicationAutoScaling::ScalableTarget"
MODELS = VALID.partition("[variants.primary]\n")[0]
SECOND = '[models.other]\nsaved_model = "model"\ntensorflow = "2.20"\n'
SLEEPS, SCALES = "sleep_after_minutes = 15", "scaling = { max_rps_per_instance = 9 }"


def file(variant: str = "", *, kind: str = "ml.c6i.2xlarge", **components: str) -> str:
    """`components`: keys in one line by name; "other" has the second model."""
    lines = [f'[variants.primary]\ninstance_type = "{kind}"', variant]
    for name, keys in components.items():
        lines.append(f"[variants.primary.components.{name}]")
        model = "other" if name == "other" else "ranker"
        lines += [f'model = "{model}"', *keys.split("; ")]
    return MODELS + SECOND + "\n".join([*lines, ""])


Copies = dict[str, tuple[float, int, int | None, int]]


@dataclass(frozen=True)
class Made:
    """What the template has: CPUs, MiB, GPUs and copies of components; instances; targets' bounds."""

    components: Copies
    instances: tuple[int, int, int]
    targets: dict[str, tuple[int, int]]


ALONE: Copies = {"copies": (4.25, 1024, None, 1)}
SHARED: Copies = {"copies": (3.5, 1024, None, 1), "other": (3.5, 1024, None, 1)}
DEPLOYED = {
    "one component has an instance to itself": (
        file(copies="min_copies = 1"),
        Made(ALONE, (1, 1, 1), {}),
    ),
    "two share it in equal parts": (file(copies="", other=""), Made(SHARED, (1, 1, 1), {})),
    "copies that stay are as many as the minimum": (
        file("min_instances = 2", copies="min_copies = 2", other=""),
        Made({"copies": (3.5, 1024, None, 2), "other": (3.5, 1024, None, 1)}, (2, 2, 2), {}),
    ),
    "stated resources are reserved": (
        file(copies="cpus = 1.25; memory_mib = 3000"),
        Made({"copies": (1.25, 3000, None, 1)}, (1, 1, 1), {}),
    ),
    "one sleeps and one does not": (
        file(copies=SLEEPS, other=""),
        Made(SHARED, (1, 1, 1), {"copies": (0, 1)}),
    ),
    "no instance runs where all sleep": (
        file("min_instances = 0\nmax_instances = 2", copies=SLEEPS, other=SLEEPS),
        Made(SHARED, (0, 2, 1), {"copies": (0, 1), "other": (0, 1)}),
    ),
    "a variant that sleeps has one component": (
        f"{VALID}{SLEEPS}\nmax_instances = 3\n{SCALES}\n",
        Made({"primary": (2.25, 1024, None, 1)}, (0, 3, 1), {"primary": (0, 3)}),
    ),
    "an instance stays where all sleep and it is asked for": (
        file("min_instances = 1", copies=SLEEPS),
        Made(ALONE, (1, 1, 1), {"copies": (0, 1)}),
    ),
    "copies are scaled between their bounds": (
        file(
            "min_instances = 2\nmax_instances = 4",
            copies=f"min_copies = 2; max_copies = 4; {SCALES}",
        ),
        Made({"copies": (4.25, 1024, None, 2)}, (2, 4, 2), {"copies": (2, 4)}),
    ),
    "scaling on hold has no target": (
        file(
            "max_instances = 2",
            copies="max_copies = 2; scaling = { max_rps_per_instance = 9, hold = true }",
        ),
        Made(ALONE, (1, 2, 1), {}),
    ),
    "GPUs are divided": (
        file(kind="ml.g5.12xlarge", copies="", other=""),
        Made({"copies": (21.5, 1024, 2, 1), "other": (21.5, 1024, 2, 1)}, (1, 1, 1), {}),
    ),
    "a GPU for one component alone": (
        file(kind="ml.g5.xlarge", copies="gpus = 1; cpus = 2", other="gpus = 0; cpus = 1"),
        Made({"copies": (2, 1024, 1, 1), "other": (1, 1024, None, 1)}, (1, 1, 1), {}),
    ),
    "the first instances are those of the file": (
        file("initial_instances = 2\nmax_instances = 3", copies=""),
        Made(ALONE, (1, 3, 2), {}),
    ),
}
# tests/preflight/rows/components.toml has the others.
REFUSED = {
    "neither model nor components": (file(), "variant-model-unknown"),
    "a component's model that is none": (
        file(copies="").replace(
            'components.copies]\nmodel = "ranker"', 'components.copies]\nmodel = "rankr"'
        ),
        "variant-model-unknown",
    ),
    "both forms of sleep": (file(SLEEPS, copies=SLEEPS), "component-keys"),
}


def bounds(target: dict[str, Any]) -> tuple[int, int]:
    return target["MinCapacity"], target["MaxCapacity"]


def made(found: Synthesised) -> Made:
    components = {}
    for each in found.all(COMPONENT):
        needs = each["Specification"]["ComputeResourceRequirements"]
        components[each["InferenceComponentName"].removeprefix("ranker-")] = (
            needs["NumberOfCpuCoresRequired"],
            needs["MinMemoryRequiredInMb"],
            needs.get("NumberOfAcceleratorDevicesRequired"),
            each["RuntimeConfig"]["CopyCount"],
        )
    (variant,) = found.one(CONFIG)["ProductionVariants"]
    scaling = variant["ManagedInstanceScaling"]
    return Made(
        components,
        (scaling["MinInstanceCount"], scaling["MaxInstanceCount"], variant["InitialInstanceCount"]),
        {
            each["ResourceId"].removeprefix("inference-component/ranker-"): bounds(each)
            for each in found.all(TARGET)
        },
    )


@pytest.mark.parametrize(("text", "rule"), REFUSED.values(), ids=REFUSED)
def test_these_are_refused(environment: Environment, text: str, rule: str) -> None:
    assert {each.rule for each in select_errors(check_all(environment(text)))} == {rule}


@pytest.mark.parametrize(("text", "expected"), DEPLOYED.values(), ids=DEPLOYED)
def test_these_make_calls_that_aws_takes(synthesise: Synthesise, text: str, expected: Made) -> None:
    found = synthesise(text)
    assert made(found) == expected
    assert [said for call in calls(found.template) for said in problems(call)] == []


@pytest.mark.long
def test_sleep_after_minutes_is_short_for_one_component(synthesise: Synthesise) -> None:
    short = synthesise(f"{VALID}{SLEEPS}\nmax_instances = 3\n{SCALES}\n")
    instances = "min_instances = 0\nmax_instances = 3"
    copies = f"max_copies = 3; {SLEEPS}; {SCALES}"
    long = synthesise(file(instances, kind="ml.c5.xlarge", copies=copies))

    def compared(found: Synthesised) -> list[Any]:
        (component,) = found.all(COMPONENT)
        (variant,) = found.one(CONFIG)["ProductionVariants"]
        needs = component["Specification"]["ComputeResourceRequirements"]
        environment = found.one("AWS::SageMaker::Model")["PrimaryContainer"]["Environment"]
        return [needs, variant, environment, bounds(found.one(TARGET))]

    assert compared(short) == compared(long)


def test_a_component_waits_for_its_endpoint_and_its_target_for_it(synthesise: Synthesise) -> None:
    found = synthesise(file(copies=f"max_copies = 1; {SLEEPS}"))
    (endpoint,), (component,) = found.ids("AWS::SageMaker::Endpoint"), found.ids(COMPONENT)
    (target,) = found.ids(TARGET)
    name = found.one(COMPONENT)["EndpointName"]
    depends = found.template["Resources"][target]["DependsOn"]
    assert (name, depends) == ({"Fn::GetAtt": [endpoint, "EndpointName"]}, [component])


@pytest.mark.long
def test_each_component_has_a_log_group_and_callers_invoke_no_other(synthesise: Synthesise) -> None:
    found = synthesise(with_keys("endpoint", CALLERS, file(copies="", other="")))
    prefix = "/aws/sagemaker/InferenceComponents/ranker-"
    groups = [group["LogGroupName"] for group in found.all("AWS::Logs::LogGroup")]
    assert groups == [f"{prefix}copies", f"{prefix}other"]
    (policy,) = found.all("AWS::IAM::ManagedPolicy")
    (statement,) = policy["PolicyDocument"]["Statement"]
    named = {str(resource).rpartition(":")[2].rstrip("]'}") for resource in statement["Resource"]}
    components = {f"inference-component/ranker-{name}" for name in ("copies", "other")}
    assert named == {"endpoint/ranker"} | components
