"""Whole files: acknowledgments, several variants, ten faults at once, a clock, the secure base, and form."""

import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.parameters.finding import Severity
from infra.parameters.loading import Loaded, load
from infra.preflight.check import check, check_all, select_errors
from servable.check.command import check as command
from tests.checkouts import ROOT
from tests.conftest import VALID, Environment, valid
from tests.findings import Message, message, messages
from tests.preflight.overlay import SERVERLESS, overlaid

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
    found = check(environment(VALID + ACKNOWLEDGE, **P2))
    assert select_errors(found) == []
    accepted = [one.remedy for one in found if one.severity is Severity.ACKNOWLEDGED]
    assert accepted == ["accepted: moves to g4dn next quarter"]
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


def test_variants_of_a_model_share_a_finding_and_ten_are_allowed(environment: Environment) -> None:
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
    for file, what, size, accepted in [
        (VALID, "request", 25_000_000, True),
        (VALID, "request", 25_000_001, False),
        (VALID, "answer", 25_000_000, True),
        (VALID, "answer", 25_000_001, False),
        (SERVERLESS, "request", 4_194_305, False),
    ]:
        acknowledged = f'[acknowledge]\n{what}-too-large = "it was answered"\n'
        text = f"{file}[traffic]\n{what}_bytes = {size}\n{acknowledged}"
        assert (f"{what}-too-large" not in rules(environment, text)) is accepted


UNSAID = VALID.replace("production = false\n", "")


def warned(project: Path, name: str, text: str) -> bool:
    file = project / "environments" / f"{name}.toml"
    file.write_text(text)
    (loaded,) = load(project, file.parent)
    file.unlink()
    return "capacity-single" in [finding.rule for finding in check(loaded)]


def test_the_files_word_is_above_its_name_which_is_production_for_prod(project: Path) -> None:
    names = {"prod": True, "production-eu": True, "dev": False, "reproduction": False}
    for name, by_name in names.items():
        assert warned(project, name, UNSAID) is by_name
        assert warned(project, name, VALID.replace("production = false", "production = true"))
        assert not warned(project, name, VALID)
    second = VALID[VALID.index("[variants") :].replace("primary", "second") + "weight = 0\n"
    assert not warned(project, "prod", f"{UNSAID}min_instances = 2\n{second}")


FAULTS = """
traffic.rows_per_request = 500
traffic.request_bytes = 9000000
alarms.p99_latency_ms = 50
rollout = { strategy = "canary", canary_percent = 90, bake_minutes = 2 }
variants.primary.instance_type = "ml.g4dn.12xlarge"
variants.primary.volume_gb = 100
variants.primary.inference_ami = "al2-ami-sagemaker-inference-gpu-2-1"
variants.primary.max_instances = 4
variants.primary.environment.SAGEMAKER_BATCH = "true"
variants.primary.container.tfs_processes = 1
variants.primary.container.gunicorn_threads = 4
variants.primary.container.batching = { max_batch_size = 64, timeout_micros = 60000 }
"""
EXPECTED = {
    "parameters": ("rollout.canary_percent", 90),
    "batch-below-request": ("variants.primary.container.batching.max_batch_size", 64),
    "batch-timeout-above-alarm": ("variants.primary.container.batching.timeout_micros", 60000),
    "request-too-large": ("traffic.request_bytes", 9_000_000),
    "rollout-bake-too-short": ("rollout.bake_minutes", 2),
    "storage-volume-on-nvme": ("variants.primary.volume_gb", 100),
    "ami-cuda": ("variants.primary.inference_ami", "al2-ami-sagemaker-inference-gpu-2-1"),
    "capacity-nothing-scales": ("variants.primary.max_instances", 4),
    "variable-unsupported": ("variants.primary.environment.SAGEMAKER_BATCH", "true"),
    "gpu-idle": ("variants.primary.container.tfs_processes", 1),
    "workers-without-code": ("variants.primary.container.gunicorn_threads", 4),
    "threads-with-gevent": ("variants.primary.container.gunicorn_threads", 4),
}


def test_the_command_and_check_show_every_fault_at_once_with_key_value_and_remedy(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check(overlaid(project, FAULTS))
    assert {one.rule: (one.key, one.given) for one in found} == EXPECTED
    told = [one for one in found if one.file == "environments/prod.toml" and one.remedy]
    assert len(told) == len(EXPECTED)
    assert [one for one in found if str(one.given) not in str(one).replace(",", "")] == []
    assert sum(one.severity is Severity.ERROR for one in found) == 10
    monkeypatch.chdir(project)
    ran = CliRunner().invoke(command, [], standalone_mode=False, color=False)
    shown = [line for line in ran.stderr.splitlines() if not line.startswith(("not checked", " "))]
    assert (ran.return_value, len(shown)) == (1, len(EXPECTED))


BARE = 'extends = "secure-base"\naccount = "111111111111"\n[endpoint]\nname = "ranker"\n'


def write_secure(folder: Path, text: str) -> Loaded:
    for name in ("base.toml", "secure-base.toml"):
        shutil.copy(ROOT / "environments" / name, folder)
    (folder / "prod.toml").write_text(text)
    (found,) = load(ROOT, folder)
    return found


def refused(folder: Path, text: str) -> list[str]:
    return [error.problem for error in select_errors(check(write_secure(folder, text)))]


def test_secure_base_asks_for_every_id_that_the_file_needs_in_one_error(tmp_path: Path) -> None:
    assert refused(tmp_path, BARE) == [
        "security.require needs ids that are missing: network.subnets, "
        "network.security_groups, endpoint.volume_kms_key, endpoint.log_kms_key, "
        "alarms.topic_kms_key, capture.kms_key, endpoint.archive_kms_keys"
    ]
    text = BARE + '[variants.primary]\ninstance_type = "ml.g4dn.xlarge"\n'
    (problem,) = refused(tmp_path, text)
    assert "volume_kms_key" not in problem

    pinned = f'artifact = {{ uri = "s3://runs/17/model.tar.gz", sha256 = "{"0" * 64}" }}'
    (problem,) = refused(tmp_path, f"{BARE}[asynchronous]\n[models.other]\n{pinned}\n")
    assert {"asynchronous.kms_key", "models.other.artifact.kms_key"} <= set(problem.split(", "))
    assert refused(tmp_path, BARE.replace("secure-base", "base")) == []


def test_with_its_ids_it_may_be_deployed_isolated_and_captured(tmp_path: Path) -> None:
    for form in ["g4dn", "cpu"]:
        text = (ROOT / "scripts" / "secure" / f"{form}.toml").read_text()
        assert refused(tmp_path, text) == []
    found = valid(write_secure(tmp_path, text)).environment
    assert (found.endpoint.log_retention_days, found.endpoint.log_removal) == (365, "retain")
    assert (found.security.network_isolation, found.capture is not None) == (True, True)


AT = "at(2026-12-24T18:00:00)"


def scheduled(at: str, zone: str = "UTC") -> str:
    action = f'{{ at = "{at}", timezone = "{zone}", at_least = 1, at_most = 2 }}'
    return f"variants.primary.max_instances = 2\nvariants.primary.scaling.schedule = [{action}]\n"


def find_past(project: Path, lines: str, now: datetime) -> list[Message]:
    found = check(replace(overlaid(project, lines), asked_at=now))
    return messages(one for one in found if one.rule == "scaling-schedule-past")


def test_an_action_is_over_after_its_time_in_its_zone_or_its_last_year(project: Path) -> None:
    for second, zone, over in [
        (0, "UTC", False),
        (1, "UTC", True),
        (1, "America/New_York", False),
        (0, "Europe/Berlin", True),
    ]:
        now = datetime(2026, 12, 24, 18, 0, second, tzinfo=UTC)
        problem, remedy = f"{AT} ({zone}) is in the past", "remove the action, or set a new time"
        found = [("variants.primary.scaling.schedule", problem, "", remedy)]
        assert find_past(project, scheduled(AT, zone), now) == (found if over else [])
    for year, over in [(2026, False), (2027, True)]:
        lines = scheduled("cron(0 7 ? * MON 2025-2026)")
        assert bool(find_past(project, lines, datetime(year, 7, 1, tzinfo=UTC))) is over


def judged(project: Path, lines: str, rule: str) -> list[tuple[str, Severity]]:
    found = check_all(overlaid(project, lines))
    return [(one.key, one.severity) for one in found if one.rule == rule]


def test_without_a_clock_it_is_not_checked_and_its_acceptance_is_no_error(project: Path) -> None:
    key = "variants.primary.scaling.schedule"
    assert judged(project, scheduled(AT), "scaling-schedule-past") == [(key, Severity.NOT_CHECKED)]
    accepted = '[acknowledge]\nscaling-schedule-past = "kept to remember it"\n'
    assert [str(finding) for finding in check(overlaid(project, scheduled(AT) + accepted))] == []


GOLDEN = "models.ranker.golden.request"
ROLLED = 'rollout = { strategy = "canary", golden_requests = { body = "golden/big.csv" } }'
CSV = 'traffic.content_types = ["text/csv"]'


def test_csv_for_nginx_is_measured_and_costs_nothing_with_a_handler(project: Path) -> None:
    for size, lines, found in [
        (250_000, f'{GOLDEN} = "golden/big.csv"', []),
        (250_001, f'{GOLDEN} = "golden/big.csv"', [(GOLDEN, Severity.WARNING)]),
        (300_000, ROLLED, [("rollout.golden_requests.body", Severity.WARNING)]),
        (0, CSV, [("traffic.content_types", Severity.NOT_CHECKED)]),
        (0, f'{CSV}\nmodels.ranker.handler = "servable"', []),
    ]:
        (project / "golden" / "big.csv").write_bytes(b"1" * size)
        assert judged(project, lines, "conversion-cost") == found


# By bound: the last value that is taken, and the first that is refused; over a valid file.
BOUNDS = {
    "a canary's share": ("rollout", "canary_percent", 50, 51, 'strategy = "canary"'),
    "the least step": ("rollout", "step_percent", 10, 9, 'strategy = "linear"'),
    "the largest step": ("rollout", "step_percent", 50, 51, 'strategy = "linear"'),
    "a rolling batch": ("rollout", "batch_percent", 5, 4, 'strategy = "rolling"'),
    "a bake": ("rollout", "bake_minutes", 60, 61, 'strategy = "canary"'),
    "model servers": ("variants.primary.container", "tfs_processes", 1, 0, ""),
    "an alarm's window": ("alarms", "window_minutes", 60, 1441, ""),
    "a latency, not in microseconds": ("alarms", "p99_latency_ms", 60_000, 100_000, ""),
    "an endpoint's length": ("endpoint", "name", "a" * 63, "a" * 64, ""),
    "an endpoint's characters": ("endpoint", "name", "my-endpoint", "my_endpoint", ""),
    "a volume": ("variants.primary", "volume_gb", 512, 513, ""),
    "a download": ("variants.primary", "download_timeout_seconds", 3600, 3601, ""),
}


@pytest.mark.parametrize(("table", "key", "last", "refused", "more"), BOUNDS.values(), ids=BOUNDS)
def test_the_last_value_that_aws_takes_is_taken_and_the_next_refused(
    project: Path, table: str, key: str, last: object, refused: object, more: str
) -> None:
    for value, is_refused in [(last, False), (refused, True)]:
        lines = f"[{table}]\n{more}\n{key} = {value!r}"
        found = [finding.rule for finding in check(overlaid(project, lines))]
        assert ("parameters" in found) is is_refused


def test_a_refusal_says_value_range_and_key(project: Path) -> None:
    found = check(overlaid(project, 'rollout = { strategy = "canary", canary_percent = 90 }'))
    allowed = ("1 or more and 50 or less", "set 50, the nearest")
    assert message(found[0]) == ("rollout.canary_percent", "90 is out of range", *allowed)
