"""`servable plan ENV --against REF`: exit codes, words and JSON."""

import json
import re
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from servable.plan.command import plan
from tests.batches import build_batch_example
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.servable.test_check_against import SCALED, SECOND, Commit

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]
PROTECTED = SECOND.replace('name = "ranker"', 'name = "ranker"\nprotect = true')


@pytest.fixture
def revision(prod: Path, commit: Commit) -> Path:
    """The project's first commit, with two scaled variants, is what is compared with."""
    (prod / "elsewhere").symlink_to(prod / "model")  # out of the copy that is compared with
    commit(SECOND)
    return prod


def run(project: Path, text: str, *arguments: str) -> Result:
    (project / "environments" / "prod.toml").write_text(text)
    options = ("prod", "--against", "HEAD", *arguments)
    return CliRunner().invoke(plan, options, standalone_mode=False, color=False)


def test_the_same_file_exits_0_and_another_model_or_protection_is_one_deploy(
    revision: Path,
) -> None:
    ran = run(revision, SECOND)
    assert (ran.return_value, ran.stdout) == (0, "prod, against HEAD: nothing changes\n")
    ran = run(revision, PROTECTED)
    assert (ran.return_value, "the fleet stays" in ran.stdout) == (0, True)
    assert "SageMaker::Endpoint: DeletionPolicy: RetainExceptOnCreate (new)" in ran.stdout
    (revision / "model" / "1" / "fingerprint.pb").write_bytes(b"another")
    ran = run(revision, SECOND, "--set", "prod.alarms.cpu_percent=80")
    assert (ran.return_value, ran.stdout.splitlines()[0]) == (0, "prod, against HEAD: one deploy")
    assert "    cdk deploy 'prod/*' -c prod.alarms.cpu_percent=80\n" in ran.stdout


def alone(text: str) -> str:
    """The file with a batch and without its variants."""
    return f"{build_batch_example()}\n{text[: text.index('[variants.')]}"


def test_an_endpoint_that_the_file_renames_or_no_longer_has_is_deleted_unless_protected(
    revision: Path, commit: Commit
) -> None:
    ran = run(revision, alone(VALID))
    assert ran.stdout.splitlines()[0] == "prod, against HEAD: deletes the endpoint"
    assert ran.return_value == 1
    ran = run(revision, PROTECTED.replace('"ranker"\nprotect', '"other"\nprotect'))
    assert "CloudFormation deletes ranker" in ran.stderr
    commit(PROTECTED)
    ran = run(revision, SECOND.replace('"ranker"', '"other"', 1))
    assert "CloudFormation deletes ranker" in ran.stderr
    ran = run(revision, alone(PROTECTED), "--json")
    assert (ran.return_value, json.loads(ran.stdout)["verdict"]) == (1, "keep")
    ran = run(revision, PROTECTED.replace('"ranker"\nprotect', '"other"\nprotect'))
    assert (ran.return_value, "keeps ranker, which is protected" in ran.stderr) == (1, True)


def test_an_endpoint_joins_batches_in_one_deploy_and_a_batch_has_no_fleet(
    revision: Path, commit: Commit
) -> None:
    commit(alone(VALID))
    with_endpoint = run(revision, f"{build_batch_example()}\n{VALID}").stdout
    assert "against HEAD: one deploy" in with_endpoint
    assert "the new fleet of primary" in with_endpoint
    (revision / "model" / "1" / "fingerprint.pb").write_bytes(b"another")
    assert "deploy when no run is active" in run(revision, alone(VALID)).stdout
    assert json.loads(run(revision, alone(VALID), "--json").stdout)["new_fleet"] is False


def test_a_removed_variant_that_scales_is_first_let_go_as_that_revision_has_it(
    revision: Path,
) -> None:
    ran = run(revision, SCALED, "--json")
    assert ran.return_value == 1
    before, change = (one["command"] for one in json.loads(ran.stdout)["deploys"])
    assert before == (
        "git worktree add ../deployed HEAD && (cd ../deployed && cdk deploy 'prod/*' -c "
        "prod.variants.second.scaling.hold=true -c "
        "prod.variants.second.instance_type=ml.c5.xlarge); git worktree remove --force ../deployed"
    )
    assert change == "cdk deploy 'prod/*'"
    rollout = '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
    ran = run(revision, SECOND.replace("variants.second", "variants.third") + rollout, "--json")
    parsed = json.loads(ran.stdout)
    assert (parsed["verdict"], parsed["deploys"]) == ("refused", [])
    assert "remove [rollout] for this deploy" in parsed["reasons"][0]


def test_asynchronous_inference_needs_no_feature_flag_and_is_known_to_stay(
    revision: Path, commit: Commit, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert json.loads(run(revision, f"{VALID}[asynchronous]\n", "--json").stdout)["changes"]
    shutil.copy(ROOT / "cdk.json", revision)  # with the flags that ENV/data needs
    commit(VALID + "[asynchronous]\n")
    ran = run(revision, VALID, "--json")
    assert json.loads(ran.stdout)["verdict"] == "refused", ran.stderr

    refused = Mock(side_effect=RuntimeError("Error: no such flag"))
    monkeypatch.setattr("stacks.environment_stage.EnvironmentStage", refused)
    assert str(run(revision, VALID).exception).startswith(
        "cdk.json: CDK rejects the stacks of prod with these feature flags: Error: no such flag"
    )


def test_other_days_of_captured_requests_change_the_data_stack(
    revision: Path, commit: Commit
) -> None:
    captured = SECOND + "[capture]\nsample_percent = 10\nkeep_days = 30\n"
    commit(captured)
    ran = run(revision, captured.replace("keep_days = 30", "keep_days = 60"))
    assert ran.stdout.splitlines()[0] == "prod, against HEAD: one deploy"
    (change,) = (line for line in ran.stdout.splitlines() if "ExpirationInDays" in line)
    before, after = change.split(" -> ")
    assert before.startswith("  data stack, S3::Bucket: LifecycleConfiguration.Rules")
    assert '"ExpirationInDays": 30' in before
    assert '"ExpirationInDays": 60' in after


def test_wrong_use_and_a_file_with_an_error_are_not_planned(revision: Path) -> None:
    options = ["prod", "--against", "HEAD", "--local"]
    ran = CliRunner().invoke(plan, options, standalone_mode=False)
    assert str(ran.exception) == "use either --against or --local, not both"
    ran = CliRunner().invoke(plan, ["prod", "--against", "nowhere"], standalone_mode=False)
    wanted = r"--against nowhere: .*nowhere.*; pass a commit, branch, or tag that git log shows"
    assert re.fullmatch(wanted, str(ran.exception))
    ran = run(revision, SECOND.replace("ml.c5.xlarge", "ml.c5.xxlarge"))
    assert (ran.return_value, "ml.c5.xxlarge" in ran.stderr) == (1, True)
