"""No rule is silent about an image's version: what breaks it is found, or said not to be checked."""

import pytest

from infra.preflight.check import check_all
from tests.conftest import make_project
from tests.preflight.overlay import overlaid
from tests.preflight.test_every_rule import ROWS

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
def test_what_breaks_a_rule_is_named_with_every_version(
    tmp_path_factory: pytest.TempPathFactory, rule: str
) -> None:
    project = make_project(tmp_path_factory.mktemp("version"))
    silent = []
    for version in VERSIONS:
        lines = f'models.ranker.tensorflow = "{version}"\n{RULES[rule]}'
        if not any(finding.rule == rule for finding in check_all(overlaid(project, lines))):
            silent.append(version)
    assert silent == []
