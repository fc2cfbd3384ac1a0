"""`servable plan ENV --against REF`: exit codes, words and JSON."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import load
from servable.plan.command import plan
from servable.plan.live import LiveState, TakenName
from servable.plan.plan import DeployPlan, build_plan
from tests.batches import build_batch_example
from tests.checkouts import ROOT
from tests.conftest import VALID, valid
from tests.servable.test_check_against import SCALED, SECOND, git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def revision(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's first commit, with two scaled variants, is what is compared with."""
    (project / "cdk.json").write_text("{}")
    (project / "environments" / "prod.toml").write_text(SECOND)
    git(project, "init", "--quiet")
    git(project, "add", "environments", "cdk.json", "model")
    git(project, "commit", "--quiet", "--message", "deployed")
    monkeypatch.chdir(project)
    return project


def run(project: Path, text: str, *arguments: str) -> Result:
    (project / "environments" / "prod.toml").write_text(text)
    options = ("prod", "--against", "HEAD", *arguments)
    return CliRunner().invoke(plan, options, standalone_mode=False, color=False)


def test_the_same_file_exits_0(revision: Path) -> None:
    ran = run(revision, SECOND)
    assert (ran.return_value, ran.stdout) == (0, "prod, against HEAD: nothing changes\n")


def test_another_model_is_one_deploy(revision: Path) -> None:
    (revision / "model" / "1" / "fingerprint.pb").write_bytes(b"another")
    ran = run(revision, SECOND)
    assert (ran.return_value, ran.stdout.splitlines()[0]) == (0, "prod, against HEAD: one deploy")


def alone(text: str) -> str:
    """The file with a batch and without its variants."""
    return f"{build_batch_example()}\n{text[: text.index('[variants.')]}"


def test_the_last_variant_taken_out_beside_a_batch_deletes_the_endpoint(revision: Path) -> None:
    ran = run(revision, alone(VALID))
    assert (ran.return_value, ran.stdout.splitlines()[0]) == (
        1,
        "prod, against HEAD: deletes the endpoint",
    )


def test_an_endpoint_joins_batches_in_one_deploy_and_a_batch_has_no_fleet(revision: Path) -> None:
    (revision / "environments" / "prod.toml").write_text(alone(VALID))
    git(revision, "commit", "--quiet", "--all", "--message", "batches")
    with_endpoint = run(revision, f"{build_batch_example()}\n{VALID}").stdout
    assert "against HEAD: one deploy" in with_endpoint
    assert "the new fleet of primary" in with_endpoint
    (revision / "model" / "1" / "fingerprint.pb").write_bytes(b"another")
    assert "deploy when no run is active" in run(revision, alone(VALID)).stdout
    assert json.loads(run(revision, alone(VALID), "--json").stdout)["new_fleet"] is False


def test_a_removed_variant_that_scales_is_first_let_go_as_that_revision_has_it(
    revision: Path,
) -> None:
    assert run(revision, SCALED).return_value == 1
    parsed = json.loads(run(revision, SCALED, "--json").stdout)
    assert [one["command"] for one in parsed["deploys"]] == [
        "git worktree add ../deployed HEAD && (cd ../deployed && cdk deploy 'prod/*' -c "
        "prod.variants.second.scaling.hold=true -c "
        "prod.variants.second.instance_type=ml.c5.xlarge); git worktree remove --force ../deployed",
        "cdk deploy 'prod/*'",
    ]


def test_an_override_of_this_run_stands_in_the_command(revision: Path) -> None:
    ran = run(revision, SECOND, "--set", "prod.alarms.cpu_percent=80")
    assert "    cdk deploy 'prod/*' -c prod.alarms.cpu_percent=80\n" in ran.stdout


def test_wrong_use_and_a_file_with_an_error_are_not_planned(revision: Path) -> None:
    options = ["prod", "--against", "HEAD", "--local"]
    ran = CliRunner().invoke(plan, options, standalone_mode=False)
    assert str(ran.exception) == "use either --against or --local, not both"

    ran = CliRunner().invoke(plan, ["prod", "--against", "nowhere"], standalone_mode=False)
    wanted = r"--against nowhere: .*nowhere.*; pass a commit, branch, or tag that git log shows"
    assert re.fullmatch(wanted, str(ran.exception))
    ran = run(revision, SECOND.replace("ml.c5.xlarge", "ml.c5.xxlarge"))
    assert (ran.return_value, "ml.c5.xxlarge" in ran.stderr) == (1, True)


def test_renamed_variants_under_a_rollout_are_refused_with_the_way_that_works(
    revision: Path,
) -> None:
    rollout = '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
    ran = run(revision, SECOND.replace("variants.second", "variants.third") + rollout, "--json")
    parsed = json.loads(ran.stdout)
    assert (parsed["verdict"], parsed["deploys"]) == ("refused", [])
    assert "remove [rollout] for this deploy" in parsed["reasons"][0]


def test_a_protected_endpoint_that_the_file_renames_or_no_longer_has_is_said_to_be_kept(
    revision: Path,
) -> None:
    protected = SECOND.replace('name = "ranker"', 'name = "ranker"\nprotect = true')
    run(revision, protected)
    git(revision, "commit", "--all", "--quiet", "--message", "protected")
    ran = run(revision, alone(protected), "--json")
    assert (ran.return_value, json.loads(ran.stdout)["verdict"]) == (1, "keep")
    ran = run(revision, protected.replace('"ranker"\nprotect', '"other"\nprotect'))
    assert (ran.return_value, "keeps ranker, which is protected" in ran.stderr) == (1, True)


@pytest.mark.parametrize(("was", "shall"), [(True, False), (False, True)])
def test_an_endpoint_that_is_not_protected_in_both_is_said_to_be_deleted(
    revision: Path, was: bool, shall: bool
) -> None:
    protected = SECOND.replace('name = "ranker"', 'name = "ranker"\nprotect = true')
    run(revision, protected if was else SECOND)
    git(revision, "commit", "--all", "--allow-empty", "--quiet", "--message", "live")
    ran = run(revision, (protected if shall else SECOND).replace('"ranker"', '"other"', 1))
    assert "CloudFormation deletes ranker" in ran.stderr


def test_protection_is_a_change_that_replaces_nothing(revision: Path) -> None:
    ran = run(revision, SECOND.replace('name = "ranker"', 'name = "ranker"\nprotect = true'))
    assert (ran.return_value, "the fleet stays" in ran.stdout) == (0, True)
    assert "SageMaker::Endpoint: DeletionPolicy: RetainExceptOnCreate (new)" in ran.stdout


def after_a_failed_creation(project: Path, **state: Any) -> DeployPlan:
    (project / "environments" / "prod.toml").write_text(VALID)
    (loaded,) = load(project, project / "environments")
    now = LiveState(stack_status="ROLLBACK_COMPLETE", **state)
    return build_plan(
        valid(loaded), now, {"Resources": {}}, against="what is live", folder="environments"
    )


LEFT = TakenName("endpoint", "an endpoint ranker already exists outside this stack", "delete it")


def test_a_creation_that_failed_is_made_again_after_what_unlocks_it(project: Path) -> None:
    assert after_a_failed_creation(project).verdict == "create"
    deploys = after_a_failed_creation(project, unlocking="aws unlock").deploys
    assert [deploy.command for deploy in deploys] == ["aws unlock", "cdk deploy 'prod/*'"]
    cases: list[tuple[tuple[TakenName, ...], list[str]]] = [
        ((), ["deleted"]),
        ((LEFT,), ["deleted", "outside this stack"]),
    ]
    for taken, words in cases:
        shown = after_a_failed_creation(project, unlocking="aws", taken=taken)
        pairs = zip(words, shown.reasons, strict=True)
        assert (shown.verdict, [word for word, reason in pairs if word in reason]) == (
            "refused",
            words,
        )


def test_asynchronous_inference_of_the_revision_is_known_to_stay(revision: Path) -> None:
    shutil.copy(ROOT / "cdk.json", revision)  # with the flags that ENV/data needs
    run(revision, VALID + "[asynchronous]\n")
    git(revision, "commit", "--all", "--quiet", "--message", "asynchronous")
    ran = run(revision, VALID, "--json")
    assert json.loads(ran.stdout)["verdict"] == "refused", ran.stderr


def test_what_cdk_refuses_is_one_sentence(revision: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("Error: no such flag")

    monkeypatch.setattr("stacks.environment_stage.EnvironmentStage", refuse)
    failed = run(revision, VALID).exception
    assert str(failed).startswith(
        "cdk.json: CDK rejects the stacks of prod with these feature flags: Error: no such flag"
    )


def test_asynchronous_inference_needs_no_feature_flag(revision: Path) -> None:
    assert json.loads(run(revision, f"{VALID}[asynchronous]\n", "--json").stdout)["changes"]


def test_other_days_of_captured_requests_change_the_data_stack(revision: Path) -> None:
    captured = SECOND + "[capture]\nsample_percent = 10\nkeep_days = 30\n"
    (revision / "environments" / "prod.toml").write_text(captured)
    git(revision, "commit", "--quiet", "--all", "--message", "captured")
    ran = run(revision, captured.replace("keep_days = 30", "keep_days = 60"))
    assert ran.stdout.splitlines()[0] == "prod, against HEAD: one deploy"
    (change,) = (line for line in ran.stdout.splitlines() if "ExpirationInDays" in line)
    assert change.startswith("  data stack, S3::Bucket: LifecycleConfiguration.Rules")
    assert '"ExpirationInDays": 30' in change.split(" -> ")[0]
    assert '"ExpirationInDays": 60' in change.split(" -> ")[1]
