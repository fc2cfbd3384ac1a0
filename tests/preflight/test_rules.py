"""What the rows of rows/ cannot show: acknowledgments, several variants, and what a finding says of a key."""

from pathlib import Path

from infra.parameters.finding import Severity
from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

P2 = {"ml.c5.xlarge": "ml.p2.xlarge", '"2.20"': '"2.10"'}
ACKNOWLEDGE = '[acknowledge]\ninstance-retired = "moves to g4dn next quarter"\n'


def rules(environment: Environment, text: str = VALID, **replacements: str) -> list[str]:
    return [finding.rule for finding in select_errors(check(environment(text, **replacements)))]


def said(environment: Environment, text: str = VALID, **replacements: str) -> list[Message]:
    return messages(select_errors(check(environment(text, **replacements))))


def test_a_valid_file_has_no_finding_and_no_variant_is_one(environment: Environment) -> None:
    assert check(environment()) == []
    text = VALID[: VALID.index("[variants")] + "[variants]\n"
    assert said(environment, text)[0].problem.startswith("there is neither a variant nor a batch")
    assert "Neuron" in said(environment, **{"ml.c5.xlarge": "ml.inf1.xlarge"})[0].problem


def test_a_finding_is_accepted_with_a_reason_that_is_shown(environment: Environment) -> None:
    assert rules(environment, **P2) == ["instance-retired"]
    assert rules(environment, VALID + ACKNOWLEDGE, **P2) == []
    found = check(environment(VALID + ACKNOWLEDGE, **P2))
    assert [one.remedy for one in found if one.severity is Severity.ACKNOWLEDGED] == [
        "accepted: moves to g4dn next quarter"
    ]
    (absent,) = said(environment, VALID + ACKNOWLEDGE)
    assert (absent.problem, absent.remedy) == ("accepts a finding that does not exist", "remove it")
    text = VALID + '[acknowledge]\ninstance-unknown = "trust me, it exists"\n'
    assert rules(environment, text) == ["acknowledge-nothing"]


def test_a_region_without_the_image_is_refused(environment: Environment) -> None:
    text = VALID.replace('tensorflow = "2.20"\n', "")
    for given, key in ((VALID, "models.ranker.tensorflow"), (text, "region")):
        (finding,) = said(environment, given.replace("eu-west-1", "eu-west-9"))
        assert finding[:2] == (key, "no image for TensorFlow 2.20 in eu-west-9")
        assert finding.allowed.startswith("af-south-1, ")


def variants(count: int) -> str:
    head = VALID[: VALID.index("[variants")]
    one = '[variants.v{}]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'
    return head + "".join(one.format(number) for number in range(count))


def test_what_two_variants_say_of_one_model_is_said_once_and_ten_are_allowed(
    environment: Environment,
) -> None:
    text = variants(2).replace('"2.20"', '"2.19"')
    assert [finding.rule for finding in check(environment(text))] == ["image-ended"]
    for count, refused in [(10, []), (11, ["no-variant"])]:
        assert rules(environment, variants(count)) == refused
    for count, refused in [(5, []), (6, ["rollout-too-many-alarms"])]:
        text = f'{variants(count)}[alarms]\np99_latency_ms = 9\n[rollout]\nstrategy = "canary"\n'
        assert rules(environment, text) == refused


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


UNSAID = VALID.replace("production = false\n", "")
SAID = VALID.replace("production = false", "production = true")


def warned(project: Path, name: str, text: str) -> bool:
    (project / "environments" / f"{name}.toml").write_text(text)
    (loaded,) = load(project, project / "environments")
    return "capacity-single" in [finding.rule for finding in check(loaded)]


def test_the_files_word_is_above_its_name_which_is_production_if_it_begins_with_prod(
    project: Path,
) -> None:
    for name, by_name in [
        ("prod", True),
        ("production-eu", True),
        ("dev", False),
        ("reproduction", False),
    ]:
        assert warned(project, name, UNSAID) is by_name
        assert warned(project, name, SAID)
        assert not warned(project, name, VALID)
        (project / "environments" / f"{name}.toml").unlink()


def test_a_variant_without_traffic_needs_no_spare(project: Path) -> None:
    second = VALID[VALID.index("[variants") :].replace("primary", "second") + "weight = 0\n"
    assert not warned(project, "prod", f"{UNSAID}min_instances = 2\n{second}")
