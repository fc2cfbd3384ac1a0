"""Every rule, on both sides of its bound, with its message."""

import pytest

from infra.parameters.finding import Severity
from infra.preflight.check import RULES, check, select_errors
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

SCALING = "[variants.primary.scaling]\nmax_rps_per_instance = 10\n"
P2 = {"ml.c5.xlarge": "ml.p2.xlarge", '"2.20"': '"2.10"'}
ACKNOWLEDGE = """[acknowledge]
instance-retired = "moves to g4dn next quarter"
"""


def rules(environment: Environment, text: str = VALID, **replacements: str) -> list[str]:
    return [finding.rule for finding in select_errors(check(environment(text, **replacements)))]


def said(environment: Environment, text: str = VALID, **replacements: str) -> list[Message]:
    return messages(select_errors(check(environment(text, **replacements))))


def test_a_valid_file_has_no_finding_and_one_address_once(environment: Environment) -> None:
    assert check(environment()) == []
    text = VALID + '[alarms]\nnotify = ["a@example.com", "a@example.com"]\n'
    assert rules(environment, text) == ["alarms-address-twice"]


def test_an_unknown_name_suggests_the_nearest(environment: Environment) -> None:
    assert said(environment, **{'model = "ranker"': 'model = "rankr"'}) == [
        (
            "variants.primary.model",
            "there is no model 'rankr'",
            "ranker",
            "did you mean ranker?",
        )
    ]
    assert said(environment, **{"ml.c5.xlarge": "ml.c5.4xlrge"}) == [
        (
            "variants.primary.instance_type",
            "'ml.c5.4xlrge' is unknown",
            "the 263 types that Servable knows, such as ml.c5.xlarge",
            "did you mean ml.c5.4xlarge?",
        )
    ]
    assert "Neuron" in said(environment, **{"ml.c5.xlarge": "ml.inf1.xlarge"})[0].problem
    assert said(environment, **{'"2.20"': '"2.200"'})[0].remedy == "did you mean 2.20?"
    assert said(environment, **{'"2.20"': '"2.21"'})[0].remedy == "did you mean 2.20?"


def test_an_environment_needs_a_variant_or_batch_and_a_weight(environment: Environment) -> None:
    text = VALID[: VALID.index("[variants")] + "[variants]\n"
    assert said(environment, text)[0].problem.startswith("there is neither a variant nor a batch")
    assert said(environment, VALID + "weight = 0\n")[0].problem.startswith(
        "every variant has weight 0"
    )


def test_ml_p2_is_accepted_only_with_a_reason_that_is_shown(environment: Environment) -> None:
    assert said(environment, **P2) == [
        (
            "variants.primary.instance_type",
            "ml.p2.xlarge is retired: no region lists a price for it",
            "",
            "change it to its successor ml.g4dn.xlarge, or add instance-retired = "
            '"the reason" to [acknowledge]',
        )
    ]
    assert rules(environment, VALID + ACKNOWLEDGE, **P2) == []
    found = check(environment(VALID + ACKNOWLEDGE, **P2))
    assert [one.remedy for one in found if one.severity is Severity.ACKNOWLEDGED] == [
        "accepted: moves to g4dn next quarter"
    ]


def test_accepting_what_is_absent_or_refused_is_a_finding(environment: Environment) -> None:
    (found,) = said(environment, VALID + ACKNOWLEDGE)
    assert (found.problem, found.remedy) == (
        "accepts a finding that does not exist",
        "remove it",
    )
    text = VALID + '[acknowledge]\ninstance-unknown = "trust me, it exists"\n'
    assert rules(environment, text) == ["acknowledge-nothing"]


def test_a_machine_that_the_image_does_not_run_on_is_refused(environment: Environment) -> None:
    found = said(environment, VALID + ACKNOWLEDGE, **{"ml.c5.xlarge": "ml.p2.xlarge"})
    assert found == [
        (
            "models.ranker.tensorflow",
            "the image of TensorFlow 2.20 (CUDA 12.9) does not run on the K80 of ml.p2.xlarge in "
            "variant primary",
            "",
            "set tensorflow to 2.10, or choose ml.g4dn.xlarge",
        )
    ]
    assert rules(environment, **{"ml.c5.xlarge": "ml.c6g.xlarge"}) == ["instance-architecture"]


@pytest.mark.parametrize(
    ("tensorflow", "instance_type", "severity"),
    [("2.3", "ml.p4d.24xlarge", Severity.ERROR), ("2.11", "ml.g6.xlarge", Severity.WARNING)],
)
def test_a_cuda_of_an_older_major_version_is_an_error_and_of_the_same_one_a_warning(
    environment: Environment, tensorflow: str, instance_type: str, severity: Severity
) -> None:
    loaded = environment(**{'"2.20"': f'"{tensorflow}"', "ml.c5.xlarge": instance_type})
    found = {one.rule: one.severity for one in check(loaded)}
    assert found["image-cuda-too-old"] is severity


def test_a_region_without_the_image_is_refused(environment: Environment) -> None:
    (finding,) = said(environment, **{"eu-west-1": "eu-west-9"})
    assert (finding.problem, finding.allowed[:12]) == (
        "no image for TensorFlow 2.20 in eu-west-9",
        "af-south-1, ",
    )

    text = VALID.replace('tensorflow = "2.20"\n', "").replace("eu-west-1", "eu-west-9")
    (finding,) = said(environment, text)
    assert finding[:2] == ("region", "no image for TensorFlow 2.20 in eu-west-9")


def test_instances_are_within_bounds_and_a_range_needs_something_that_scales(
    environment: Environment,
) -> None:
    for least, refused in [(2, []), (3, ["capacity-min-above-max"])]:
        text = f"{VALID}min_instances = {least}\nmax_instances = 2\n{SCALING}"
        assert rules(environment, text) == refused
    text = f"{VALID}min_instances = 3\nmax_instances = 2\n{SCALING}"
    assert said(environment, text) == [
        (
            "variants.primary.min_instances",
            "min_instances 3 is above max_instances 2",
            "",
            "set max_instances = 3, or min_instances = 2",
        )
    ]
    for most, refused in [(1, []), (2, ["capacity-nothing-scales"])]:
        assert rules(environment, f"{VALID}max_instances = {most}\n") == refused
    for scaling, refused in [("", []), (SCALING, ["capacity-burstable-scaled"])]:
        assert rules(environment, VALID + scaling, **{"ml.c5.xlarge": "ml.t2.medium"}) == refused


def test_a_bake_outlasts_the_window_of_at_most_ten_alarms(environment: Environment) -> None:
    for bake, refused in [(4, []), (3, ["rollout-bake-too-short"])]:
        text = f'{VALID}[rollout]\nstrategy = "canary"\nbake_minutes = {bake}\n'
        assert rules(environment, text) == refused
    for count, refused in [(5, []), (6, ["rollout-too-many-alarms"])]:
        text = f'{variants(count)}[alarms]\np99_latency_ms = 9\n[rollout]\nstrategy = "canary"\n'
        assert rules(environment, text) == refused


def test_what_two_variants_say_of_one_model_is_said_once_and_ten_are_allowed(
    environment: Environment,
) -> None:
    text = variants(2).replace('"2.20"', '"2.19"')
    assert [finding.rule for finding in check(environment(text))] == ["image-ended"]
    for count, refused in [(10, []), (11, ["no-variant"])]:
        assert rules(environment, variants(count)) == refused

    text = variants(2) + "max_instances = 2\n[variants.v1.scaling]\nmax_rps_per_instance = 10\n"
    found = check(environment(text))
    assert [(one.rule, one.severity) for one in found] == [
        ("capacity-mixed-scaling", Severity.WARNING)
    ]


def test_a_rule_has_its_own_id_and_says_why() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert [rule.id for rule in RULES if not rule.__doc__] == []


def variants(count: int) -> str:
    head = VALID[: VALID.index("[variants")]
    one = '[variants.v{}]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'
    return head + "".join(one.format(number) for number in range(count))


def test_what_was_given_is_what_the_key_holds(environment: Environment) -> None:
    (found,) = check(environment(VALID + "container = { gunicorn_workers = 4 }\n"))
    assert (found.key, found.given) == ("variants.primary.container.gunicorn_workers", 4)
    (found,) = check(environment(VALID + "max_instances = 2\nscaling = { schedule = [] }\n"))
    assert (found.key, found.given) == ("variants.primary.scaling", None)


def test_a_body_is_accepted_up_to_the_larger_limit_of_aws(environment: Environment) -> None:
    for what in ["request", "answer"]:
        for size, accepted in [(25_000_000, True), (25_000_001, False)]:
            text = (
                f"[traffic]\n{what}_bytes = {size}\n"
                f'[acknowledge]\n{what}-too-large = "25 MB were answered"\n'
            )
            found = rules(environment, VALID + text)
            assert (f"{what}-too-large" not in found) is accepted

    text = VALID.replace(
        'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
    )
    more = "[traffic]\nrequest_bytes = 4194305\n[acknowledge]\nrequest-too-large = 'tried'\n"
    assert "request-too-large" in rules(environment, text + more)
