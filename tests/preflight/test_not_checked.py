"""What cannot be checked, for want of an input or of an image's version, is said, and is never a pass."""

from pathlib import Path

import pytest

from infra.parameters.finding import Severity
from infra.preflight.check import check, check_all
from tests.preflight.overlay import overlaid
from tests.preflight.test_every_rule import ROWS

SCALING = "variants.primary.scaling.max_rps_per_instance = 100"
UNSIZED = f'models.ranker.artifact = {{ uri = "s3://runs/1/model.tar.gz", sha256 = "{"a" * 64}" }}'
SIZE = "models.ranker.artifact.size_gib"
BATCHING = "variants.primary.container.batching = { max_batch_size = 64 }"
SEVERAL = 'models.many.multi_model = ["ranker"]\nvariants.primary.model = "many"'
TOGETHER = "the results of a load test; it is unknown which models are loaded together"
SPIKE = 'traffic.profile = "spike"\nvariants.primary.max_instances = 8'
CHANGES = (
    "type-while-scaled", "variant-removed-while-scaled", "async-removed", "variants-under-rollout",
    "instances-to-serverless", "serverless-to-instances",
)  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "lines", "needs"),
    [
        *((f"change-{what}", "", "--against REF with the deployed revision") for what in CHANGES),
        ("capacity-traffic", SCALING, "traffic.peak_rps"),
        ("rollout-bake-unseen", 'rollout.strategy = "canary"', "traffic.quiet_rps"),
        ("batch-below-request", BATCHING, "traffic.rows_per_request"),
        ("request-too-large", "", "traffic.request_bytes"),
        ("answer-too-large", "", "traffic.answer_bytes"),
        ("alarm-above-caller", "alarms.p99_latency_ms = 9", "traffic.caller_timeout_ms"),
        ("memory", UNSIZED, SIZE),
        ("storage-too-small", UNSIZED, SIZE),
        ("memory", SEVERAL, TOGETHER),
        ("component-memory", f"{SEVERAL}\nvariants.primary.sleep_after_minutes = 15", TOGETHER),
        (
            "replay-output-unknown",
            f"{UNSIZED}\nreplay.outputs.scores.relative = 0.1",
            "a saved_model without code, whose outputs are known",
        ),
        ("gpu-memory", f'{UNSIZED}\nvariants.primary.instance_type = "ml.g5.xlarge"', SIZE),
        (
            "scaling-cooldown-short",
            f"{UNSIZED}\n{SCALING}\nvariants.primary.scaling.scale_out_cooldown_seconds = 60",
            SIZE,
        ),
        ("scaling-behind-traffic", f"{SPIKE}\n{SCALING}", "traffic.peak_rps"),
        (
            "scaling-behind-traffic",
            f"traffic.peak_rps = 400\n{SPIKE}\n"
            "variants.primary.scaling.max_concurrency_per_instance = 4",
            "variants.primary.scaling.max_rps_per_instance",
        ),
        ("instance-not-in-region", 'region = "xx-west-1"', "a region of infra/catalog: xx-west-1"),
    ],
)
def test_a_rule_without_input_names_it(project: Path, rule: str, lines: str, needs: str) -> None:
    (one,) = [each for each in check_all(overlaid(project, lines)) if each.rule == rule]
    assert (one.severity, one.remedy) == (Severity.NOT_CHECKED, f"give {needs}")
    assert one.problem.startswith("whether ")


def test_a_rule_without_anything_to_check_says_nothing(project: Path) -> None:
    for rule, lines in [
        ("scaling-behind-traffic", SCALING),
        ("scaling-behind-traffic", 'traffic.profile = "spike"'),
        ("memory", ""),
        ("rollout-bake-unseen", ""),
    ]:
        assert [one for one in check_all(overlaid(project, lines)) if one.rule == rule] == []
    assert check(overlaid(project, f"{SCALING}\nvariants.primary.max_instances = 2")) == []


# The oldest, and one for each form of the image's code, Python and CUDA since; 2.20 is the other tests'.
VERSIONS = ("2.0", "2.8", "2.12", "2.16", "2.19")
# {rule: why it has nothing to say about some of them}
OF_SOME_VERSIONS = {
    "ami-cuda": "images before 2.20 need no newer CUDA than every inference AMI has",
    "conversion-cost": "the njs of 2.20 alone converts at this cost",
    "instance-pools-driver": "images before 2.16 run with every driver",
    "setting-inert": "which settings an image reads is a matter of its version",
    "transform-gpu-driver": "most images have no newer CUDA than the newest driver of transform jobs runs",
    "variable-inert": "which variables an image reads is a matter of its version",
}
BROKEN = {row.rule: row.fails for row in reversed(ROWS) if row.rule not in OF_SOME_VERSIONS}
RULES = {rule: lines for rule, lines in BROKEN.items() if "tensorflow" not in lines}


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES)
def test_what_breaks_a_rule_is_named_with_every_version(project: Path, rule: str) -> None:
    silent = []
    for version in VERSIONS:
        lines = f'models.ranker.tensorflow = "{version}"\n{RULES[rule]}'
        if not any(finding.rule == rule for finding in check_all(overlaid(project, lines))):
            silent.append(version)
    assert silent == []
