"""Every rule is found by its file, and tested on both sides of its bound, with its message and example."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.catalog.images import find_image
from infra.parameters.finding import Finding, Severity
from infra.preflight.check import RULES, check_all
from infra.preflight.rule import Candidate, Rule, discover_rules
from tests.conftest import make_project, valid
from tests.findings import Message, message
from tests.preflight.overlay import overlaid
from tests.remedies import commands_in, problem_with, unknown_keys_in, unknown_values_in


@dataclass(frozen=True)
class Row:
    """Lines over the valid file: up to a rule's bound, and beyond it."""

    rule: str
    passes: str
    fails: str
    says: Message
    severity: str = ""
    """If it isn't the rule's own."""


def _variables(count: int) -> str:
    lines = [f'V{number} = "1"' for number in range(count)]
    return "\n".join(["[variants.primary.environment]", *lines])


def _long(characters: int) -> str:
    return f'variants.primary.environment.TABLE = "{"x" * characters}"'


def _address(characters: int) -> str:
    head = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:"
    return head + "v" * (characters - len(head))


def _tags(count: int) -> str:
    return "\n".join(["[tags]", *(f'key{number} = "value"' for number in range(count))])


def _filled(total: int) -> str:
    """Variables that are so many bytes with the container's own two."""
    own = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "ranker", "SAGEMAKER_TFS_INSTANCE_COUNT": "1"}
    rest = total - sum(map(len, [*own, *own.values()]))
    values = [f'V{number:02} = "{"x" * 997}"' for number in range(rest // 1000)]
    last = f'W00 = "{"x" * (rest % 1000 - 3)}"'
    return "\n".join(["[variants.primary.environment]", *values, last])


def _bound(rule: str, build: Callable[[int], str], most: int, *says: str) -> Row:
    return Row(rule, build(most), build(most + 1), Message(*says))


ACCOUNT = find_image(version="2.20", device="cpu", region="eu-west-1").account
SERVING = f"{ACCOUNT}.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-inference:2.20.0-cpu-py312"
MADE = [
    Row(
        "image-own-kind",
        f'models.ranker.image = "{SERVING}-sagemaker"',
        f'models.ranker.image = "{SERVING}-ec2"',
        Message(
            "models.ranker.image",
            "2.20.0-cpu-py312-ec2 is built for EC2",
            f"tensorflow-inference:VERSION-DEVICE-…-sagemaker of registry {ACCOUNT}",
            "write such an address, or remove image: AWS's image is then chosen",
        ),
    ),
    _bound("tag-refused", _tags, 50, "tags", "51 tags are too many", "at most 50", "remove some"),
    _bound(
        "variables-too-large",
        _filled,
        32_768,
        "variants.primary.environment",
        "names and values have 32,769 bytes in total, including the container's",
        "at most 32,768",
        "put some into a file in the code folder",
    ),
    Row(
        "image-own-address",
        f'models.ranker.image = "{_address(255)}"',
        f'models.ranker.image = "{_address(256)}"',
        Message(
            "models.ranker.image",
            f"{_address(256)!r} is not an address in ECR",
            "ACCOUNT.dkr.ecr.REGION.amazonaws.com/REPOSITORY:TAG or @sha256:DIGEST, "
            "at most 255 characters",
            "push it to ECR and write its address",
        ),
    ),
    _bound(
        "variables-too-many",
        _variables,
        98,
        "variants.primary.environment",
        "99 variables and the container's add up to 101",
        "at most 100 in all, 98 of your own",
        "put some into a file in the code folder",
    ),
    _bound(
        "variable-too-long",
        _long,
        1024,
        "variants.primary.environment.TABLE",
        "TABLE has 1025 characters",
        "at most 1024",
        "put it into a file in the code folder",
    ),
]
ROWS = MADE + [
    Row(
        *(rule, row.pop("passes"), row.pop("fails")),
        severity=row.pop("severity", ""),
        says=Message(**{"allowed": "", **row}),
    )
    for file in sorted((Path(__file__).parent / "rows").glob("*.toml"))
    for rule, rows in tomllib.loads(file.read_text()).items()
    for row in rows
]
NAMES = [f"{number}-{row.rule}" for number, row in enumerate(ROWS)]
# Their rows need files and not lines: test_artefact.py, test_code.py, test_code_secrets.py,
# test_graph_faults.py, test_known_requests.py, test_model_contents.py, test_rules.py, test_changes.py,
# and tests/servable/test_check_against.py.
WITH_FILES = {
    "multi-model-packages", "batch-fixed-shape", "golden-answer", "golden-request", "saved-model",
    "warm-up", "code", "code-inside-model", "isolation-calls", "rows-above-shape",
    "code-not-vendored", "code-fails-at-start", "code-installed-at-start", "code-holds-secrets",
    "change-async-removed", "change-instances-to-serverless", "change-serverless-to-instances",
    "change-type-while-scaled", "change-variant-removed-while-scaled",
    "change-variants-under-rollout", "endpoint-name-shared", "model-channels-first",
    "model-graph-version", "model-unfilled", "model-variables", "model-vocabulary", "version-zero",
    "model-needs-python", "model-op-attribute", "model-op-attribute-ignored", "model-op-removed",
    "model-op-unknown", "model-op-without-kernel", "model-platform", "model-reads-outside",
    "model-stablehlo-version", "scaling-schedule-past", "signature-default-missing",
}  # fmt: skip
EXAMPLES = [rule for rule in RULES if rule.example]


@pytest.fixture(scope="module")
def rows_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("rules"))


def find_problems(project: Path, lines: str, rule: str) -> list[Finding]:
    """What one rule finds of the valid file with these lines over it, of what could be checked."""
    found = [one for one in check_all(overlaid(project, lines)) if one.rule == rule]
    return [one for one in found if one.severity is not Severity.NOT_CHECKED]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_rule_says_nothing_up_to_its_bound_and_beyond_it_names_value_and_remedy(
    rows_project: Path, row: Row
) -> None:
    loaded = valid(overlaid(rows_project, row.passes))
    (rule,) = [each for each in RULES if each.id == row.rule]
    # This rule alone, also what it cannot check: all of them take ten times as long.
    assert [*rule(Candidate(loaded, loaded.environment)).check()] == []
    found = find_problems(rows_project, row.fails, row.rule)
    assert [message(one) for one in found] == [row.says]
    assert {one.severity.value for one in found} == {row.severity or rule.severity.value}
    values = [one.given for one in found if isinstance(one.given, str | int | float)]
    given = [f"{one:g}" if isinstance(one, float) else str(one) for one in values]
    sentence = str(found[0]).replace(",", "")
    # A value of a thousand characters is counted and not repeated; an address is shown by its part.
    known = {"variable-too-long", "image-own-region", "image-own-moving-tag", "artifact-moving-key"}
    assert row.rule in known or all(one.replace(",", "") in sentence for one in given)

    for finding in found:
        text = f"{finding.problem}; {finding.allowed}; {finding.remedy}"
        problems = {command: problem_with(command) for command in commands_in(text)}
        assert {command: problem for command, problem in problems.items() if problem} == {}
        assert (unknown_keys_in(text), unknown_values_in(finding.remedy)) == ([], [])


def test_every_rule_has_a_row_and_a_reason() -> None:
    assert sorted({rule.id for rule in RULES} - WITH_FILES - {row.rule for row in ROWS}) == []
    assert [rule.id for rule in RULES if not rule.read_reason()] == []
    warnings = [rule.id for rule in RULES if rule.severity is Severity.WARNING]
    assert [one.id for one in RULES if one.id in warnings and not one.acknowledgeable] == []


@pytest.mark.parametrize("rule", EXAMPLES, ids=[rule.id for rule in EXAMPLES])
def test_the_example_of_a_rule_breaks_it(rows_project: Path, rule: Rule) -> None:
    assert find_problems(rows_project, rule.example, rule.id)


RULE = """
from infra.preflight.rule import Rule
class {name}(Rule):
    def find_problems(self):
        yield self.build_finding("region", self.environment.region, "wrong", remedy="mend it")
"""


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> str:
    """A package with `files` in its folder `subject`, under a name that no other test has."""
    top = folder / f"rules_of_{folder.name}"
    (top / "subject").mkdir(parents=True)
    for init in (top, top / "subject"):
        (init / "__init__.py").touch()
    for name, text in files.items():
        (top / "subject" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    return top.name


def test_a_rule_is_found_once_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RULE.format(name="RegionTooFar")
    again = f"from rules_of_{tmp_path.name}.subject.one import RegionTooFar  # noqa: F401"
    found = discover_rules(package(tmp_path, monkeypatch, one=text, two=again))
    assert [(rule.id, rule.acknowledgeable) for rule in found] == [("region-too-far", False)]
    ids = [rule.id for rule in RULES]
    assert ids == sorted(ids)


def test_two_rules_of_one_id_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = RULE.format(name="RegionTooFar")
    with pytest.raises(ValueError, match=r"two rules have the id region-too-far, in .*one and"):
        discover_rules(package(tmp_path, monkeypatch, one=text, two=text))


@pytest.mark.long
def test_all_rules_are_imported_without_cdk_the_sdk_or_arrays() -> None:
    heavy = ("aws_cdk", "jsii", "boto3", "botocore", "numpy", "tensorflow")
    script = f"import sys, infra.preflight.check; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
