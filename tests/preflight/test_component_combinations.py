"""Components and sleep beside other keys: each is refused by its rule, or it is synthesised."""

from pathlib import Path

import pytest

from infra.preflight.check import check, select_errors
from tests.conftest import make_project, valid
from tests.preflight.overlay import overlaid
from tests.presets import synthesised

SLEEPS = "variants.primary.sleep_after_minutes = 15"
COMPONENTS = 'variants.primary.model = ""'
COPIES = "variants.primary.components.copies"
EXCLUDED, BOUNDS = {"component-excluded"}, {"component-bounds"}
# Lines over the valid file, with sleep or with a component, and the rules that refuse them; none: deployed.
SLEEPING: list[tuple[str, set[str]]] = [
    ("variants.primary.max_instances = 3", {"capacity-nothing-scales"}),
    (
        "variants.primary.max_instances = 3\nvariants.primary.scaling = { max_rps_per_instance = 10 }",
        set(),
    ),
    ("variants.primary.scaling = { max_concurrency_per_instance = 4 }", set()),
    (
        'variants.primary.scaling.schedule = [{ at = "cron(0 8 * * ? *)", at_least = 1 }]',
        set(),
    ),
    ("endpoint.wake_seconds = 0", set()),
    ('variants.primary.instance_type = "ml.c6i.xlarge"', set()),
    ('variants.primary.instance_type = "ml.g5.xlarge"', set()),
    ('region = "us-east-1"', set()),
    ('region = "us-gov-west-1"', {"sleep-region"}),
    ('rollout = { strategy = "rolling", batch_percent = 50 }', EXCLUDED),
    (
        "variants.primary.serverless = { memory_mib = 2048, max_concurrency = 5 }",
        EXCLUDED | {"variant-machine"},  # beside its instance_type
    ),
    (
        'variants.shadow = { model = "ranker", instance_type = "ml.c5.xlarge", shadow = true }',
        EXCLUDED,
    ),
    ('variants.primary.core_dumps.uri = "s3://dumps/ranker/"', EXCLUDED),
    (
        'variants.primary.instance_pools = [{ instance_type = "ml.c5.xlarge" }, '
        '{ instance_type = "ml.c6i.xlarge" }]',
        EXCLUDED,
    ),
    (
        'variants.primary.model = "many"\n[models.many]\nmulti_model = ["ranker"]\ntensorflow = "2.20"',
        EXCLUDED,
    ),
]
COMPONENT: list[tuple[str, str, set[str]]] = [
    ("", "capture = { sample_percent = 10 }", EXCLUDED),
    ("", "asynchronous = {}", EXCLUDED),
    (
        "",
        'variants.second = { model = "ranker", instance_type = "ml.c5.xlarge" }',
        EXCLUDED,
    ),
    ("", "variants.primary.min_instances = 0", BOUNDS),
    ("", "alarms.no_traffic_minutes = 30", set()),
    ("sleep_after_minutes = 15, min_copies = 0", "", set()),
    ("sleep_after_minutes = 15", "alarms.no_traffic_minutes = 30", {"sleep-unwatched"}),
    ("sleep_after_minutes = 15", "variants.primary.min_instances = 0", set()),
    ("min_copies = 0", "", BOUNDS),
    ("cpus = 4", "", set()),
    ("cpus = 0.125", "", {"parameters"}),
    ("memory_mib = 64", "", {"parameters"}),
    ("gpus = 1", "", {"components-fit"}),
]


def refusing(project: Path, lines: str) -> set[str]:
    """The rules that refuse it; of what is accepted, the template has a component."""
    make_project(project)
    loaded = overlaid(project, lines)
    rules = {finding.rule for finding in select_errors(check(loaded))}
    if not rules:
        made = synthesised(valid(loaded))["endpoint"]["Resources"].values()
        assert "AWS::SageMaker::InferenceComponent" in [resource["Type"] for resource in made]
    return rules


@pytest.mark.parametrize(("lines", "rules"), SLEEPING)
def test_sleep_with_another_key_is_refused_by_its_rule_or_deployed(
    tmp_path: Path, lines: str, rules: set[str]
) -> None:
    assert refusing(tmp_path, f"{SLEEPS}\n{lines}") == rules


@pytest.mark.parametrize(("keys", "lines", "rules"), COMPONENT)
def test_a_component_with_another_key_is_refused_by_its_rule_or_deployed(
    tmp_path: Path, keys: str, lines: str, rules: set[str]
) -> None:
    table = f'{COPIES} = {{ model = "ranker"{keys and ", "}{keys} }}'
    assert refusing(tmp_path, f"{COMPONENTS}\n{table}\n{lines}") == rules
