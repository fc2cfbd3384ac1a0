"""`servable check --against REF`: what an update from another revision would run into."""

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servable.check.command import check
from tests.conftest import VALID

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
SCALED = VALID + "[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
SECOND = SCALED + SCALED[SCALED.index("[variants.primary]") :].replace("primary", "second")


def git(project: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)


@pytest.fixture
def deployed(project: Path) -> Path:
    """The project's first commit is what is deployed."""
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(SECOND)
    git(project, "init", "--quiet")
    git(project, "add", "environments", "cdk.json")
    git(project, "commit", "--quiet", "--message", "deployed")
    return project


def run(monkeypatch: pytest.MonkeyPatch, project: Path, text: str, *arguments: str) -> Result:
    (project / "environments" / "prod.toml").write_text(text)
    monkeypatch.chdir(project)
    return CliRunner().invoke(check, arguments, standalone_mode=False, color=False)


def test_the_same_file_and_a_new_environment_have_no_finding(
    deployed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(monkeypatch, deployed, SECOND, "--against", "HEAD")
    assert (ran.return_value, "change-" in ran.stderr) == (0, False)

    before = sorted(deployed.rglob("*.toml"))
    run(monkeypatch, deployed, SECOND, "--against", "HEAD")
    assert sorted(deployed.rglob("*.toml")) == before

    text = SCALED.replace('name = "ranker"', 'name = "new"')
    (deployed / "environments" / "new.toml").write_text(text)
    assert run(monkeypatch, deployed, SECOND, "new", "--against", "HEAD").return_value == 0


def test_a_scaled_variant_takes_two_deployments_to_change_or_remove(
    deployed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(monkeypatch, deployed, SECOND.replace("c5", "m5", 1), "--against", "HEAD")
    assert ran.stderr.splitlines()[0].endswith(
        "first deploy with -c prod.variants.primary.scaling.hold=true "
        "-c prod.variants.primary.instance_type=ml.c5.xlarge, then without [change-type-while-scaled]"
    )
    ran = run(monkeypatch, deployed, SCALED, "--against", "HEAD")
    assert ran.stderr.splitlines()[0].endswith(
        "first deploy it with hold = true in [variants.second.scaling], then remove it "
        "[change-variant-removed-while-scaled]"
    )


def test_what_sagemaker_takes_has_no_finding(
    deployed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, deployed, VALID)
    git(deployed, "commit", "--all", "--quiet", "--message", "scaling off")
    ran = run(monkeypatch, deployed, VALID.replace("c5", "m5"), "--against", "HEAD")
    assert ran.return_value == 0

    run(monkeypatch, deployed, SCALED + "hold = true\n")
    git(deployed, "commit", "--all", "--quiet", "--message", "scaling on hold")
    ran = run(monkeypatch, deployed, SCALED.replace("c5", "m5"), "--against", "HEAD")
    assert ran.return_value == 0

    run(monkeypatch, deployed, VALID + QUEUE)
    git(deployed, "commit", "--all", "--quiet", "--message", "asynchronous")
    ran = run(monkeypatch, deployed, VALID.replace('"ranker"', '"other"', 1), "--against", "HEAD")
    assert ran.return_value == 0


def test_without_a_revision_that_is_there_changes_are_not_checked(
    deployed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = run(monkeypatch, deployed, SECOND, "--explain")
    assert (
        "not checked: whether SageMaker accepts the change to the deployed endpoint; give --against REF "
        "with the deployed revision [change-async-removed, change-instances-to-serverless, "
        "change-serverless-to-instances, change-type-while-scaled, "
        "change-variant-removed-while-scaled, change-variants-under-rollout]\n"
    ) in ran.stderr
    ran = run(monkeypatch, deployed, SECOND, "--against", "nowhere")
    assert str(ran.exception).startswith("--against nowhere: Not a valid object name")


QUEUE = "[asynchronous]\n"
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
)
GUARDED = '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (VALID + QUEUE, VALID, "cannot remove asynchronous inference"),
        (VALID, SERVERLESS, "SageMaker cannot make variant primary serverless"),
        (VALID, VALID.replace("variants.primary", "variants.main") + GUARDED, "main is new"),
    ],
    ids=["asynchronous", "serverless", "renamed"],
)
def test_what_no_deploy_does_is_an_error_with_the_way_that_works(
    deployed: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, said: str
) -> None:
    run(monkeypatch, deployed, before)
    git(deployed, "commit", "--all", "--quiet", "--message", "what is live")
    ran = run(monkeypatch, deployed, after, "--against", "HEAD")
    assert (ran.return_value, said in ran.stderr) == (1, True)


def test_from_serverless_to_instances_is_warned_of(
    deployed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(monkeypatch, deployed, SERVERLESS)
    git(deployed, "commit", "--all", "--quiet", "--message", "serverless")
    ran = run(monkeypatch, deployed, VALID, "--against", "HEAD")
    assert (ran.return_value, "rejects the change back" in ran.stderr) == (0, True)
