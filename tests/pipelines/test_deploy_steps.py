"""The workflows' own shell, step by step, against the local AWS."""

from collections.abc import Iterator

import pytest

from tests.deployment.conftest import bootstrapped_copy
from tests.pipelines.shell import Runner, steps_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
# A busy machine stands for the instance: what is held here is that the gate asks and decides.
BORNE = {
    "peak_rps = 100": "peak_rps = 10",
    "[traffic]": "[alarms]\np99_latency_ms = 20_000\n\n[traffic]",
}
# A hundred requests in ten seconds: what the gate decides is asked here, and not how sure it is.
SHORTER = (
    ("options.py", "default=30.0", "default=10.0"),
    ("gate.py", "_LEAST_REQUESTS = 2000", "_LEAST_REQUESTS = 100"),
    ("gate.py", "_LEAST_SECONDS = 120.0", "_LEAST_SECONDS = 10.0"),
    ("gate.py", "CONFIDENCE = 0.99", "CONFIDENCE = 0.5"),
)


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    names = {"ENVIRONMENT": "local", "ENVIRONMENTS": "local", "BASE": "HEAD", "NUMBER": "7"}
    with bootstrapped_copy(tmp_path_factory.mktemp("pipeline")) as made:
        file = made.project / "environments" / "local.toml"
        for old, new in BORNE.items():
            file.write_text(file.read_text().replace(old, new, 1))
        for name, usual, shorter in SHORTER:
            source = made.project / "servable" / "load" / name
            assert source.read_text().count(usual) == 1
            source.write_text(source.read_text().replace(usual, shorter))
        yield Runner(made.project, made.aws, **names)


@pytest.fixture(scope="module")
def said(runner: Runner) -> dict[str, str]:
    """What each step of a deployment prints."""
    return {step.name: runner.run(step) for step in steps_of("deploy-environment", "deploy")}


def test_the_steps_deploy_and_verify_what_passes_the_load_gate(said: dict[str, str]) -> None:
    assert "as deployed" in said["Verify that what is live is what was deployed"]
    assert (
        "gate: met, 10 requests/s"
        in said["Hold it to the traffic and the latency that its file expects"]
    )


def test_the_load_gate_ends_the_pipeline_where_the_objective_is_not_kept(
    runner: Runner, said: dict[str, str]
) -> None:
    (gate,) = (
        step
        for step in steps_of("deploy-environment", "deploy")
        if "servable load" in step.script and "--gate" in step.script
    )
    file = runner.project / "environments" / "local.toml"
    before = file.read_text()
    file.write_text(before.replace("p99_latency_ms = 20_000", "p99_latency_ms = 0.01"))
    try:
        # On a busy computer the generator itself is late, and then it cannot be told; both end the pipeline.
        with pytest.raises(AssertionError, match=r"gate: (NOT met|cannot be told), .* too slow"):
            runner.run(gate)
    finally:
        file.write_text(before)


def test_a_pull_request_sees_templates_cost_and_difference(
    runner: Runner, said: dict[str, str]
) -> None:
    runner.git("init", "--quiet")
    runner.git("add", "environments", "cdk.json")
    runner.git("commit", "--quiet", "--message", "before")
    file = runner.project / "environments" / "local.toml"
    file.write_text(file.read_text().replace("max_instances = 2", "max_instances = 3"))
    shown = {step.name: runner.run(step) for step in steps_of("pull-request", "cost", "difference")}
    assert "/month at max" in shown["What it costs"]
    assert "+$154/month at max" in runner.told.read_text()
    assert "MaxCapacity" in shown["What would change"]
