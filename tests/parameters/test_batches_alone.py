"""An environment file with batches and without an endpoint: its name, and keys that do nothing in it."""

from infra.parameters.finding import Severity
from infra.preflight.check import check
from tests.batches import build_batch_example
from tests.conftest import VALID, Environment, valid

ALONE = f"""{build_batch_example()}
account = "111111111111"
region = "eu-west-1"
production = false
models.ranker = {{ saved_model = "model", handler = "servable", tensorflow = "2.20" }}
"""


def test_its_batches_have_the_files_name_and_it_can_notify(environment: Environment) -> None:
    for lines, name in [
        ("", "prod"),
        ('service = "ranker"', "ranker-prod"),
        ("endpoint.log_retention_days = 7", "prod"),
        ('endpoint.name = "scores"', "scores"),
    ]:
        assert valid(environment(f"{lines}\n{ALONE}")).environment.endpoint.name == name
    loaded = environment(f"{build_batch_example()}\n{VALID}".replace('name = "ranker"\n', ""))
    assert "endpoint.name" in [finding.key for finding in loaded.findings]

    assert check(environment(ALONE)) == []
    lines = 'alarms = { notify = ["a@example.com"], runbook = "https://example.com" }'
    assert check(environment(f"{lines}\n{ALONE}")) == []
    for lines, key in [
        ("alarms.p99_latency_ms = 100", "alarms.p99_latency_ms"),
        ('alarms.page = ["a@example.com"]', "alarms.page"),
        ("capture = { sample_percent = 10 }", "capture"),
        ('rollout = { strategy = "canary" }', "rollout"),
        ("asynchronous = {}", "asynchronous"),
        ('batch.nightly.timezone = "Europe/Berlin"', "batch.nightly.timezone"),
    ]:
        findings = check(environment(f"{lines}\n{ALONE}"))
        shown = [(one.rule, one.key, one.severity) for one in findings]
        assert shown == [("key-without-partner", key, Severity.WARNING)]
