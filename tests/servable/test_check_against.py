"""`servable check --against REF`: what an update from another revision would run into."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from servable.check.command import check
from tests.conftest import VALID

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
SCALED = VALID + "[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
SECOND = SCALED + SCALED[SCALED.index("[variants.primary]") :].replace("primary", "second")

Commit = Callable[[str], None]
QUEUE = "[asynchronous]\n"
SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
)
GUARDED = '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'


def git(project: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    subprocess.run(["git", *identity, *arguments], cwd=project, check=True, capture_output=True)


def run(prod: Path, text: str, *arguments: str) -> Result:
    (prod / "environments" / "prod.toml").write_text(text)
    return CliRunner().invoke(check, arguments, standalone_mode=False, color=False)


def test_a_scaled_variant_takes_two_deployments_and_the_same_file_none(
    prod: Path, commit: Commit
) -> None:
    commit(SECOND)
    ran = run(prod, SECOND.replace("c5", "m5", 1), "--against", "HEAD")
    assert ran.stderr.splitlines()[0].endswith(
        "first deploy with -c prod.variants.primary.scaling.hold=true "
        "-c prod.variants.primary.instance_type=ml.c5.xlarge, then without [change-type-while-scaled]"
    )
    ran = run(prod, SCALED, "--against", "HEAD")
    assert ran.stderr.splitlines()[0].endswith(
        "first deploy it with hold = true in [variants.second.scaling], then remove it "
        "[change-variant-removed-while-scaled]"
    )
    rules = (
        "change-async-removed, change-instances-to-serverless, change-serverless-to-instances, "
        "change-type-while-scaled, change-variant-removed-while-scaled, change-variants-under-rollout"
    )
    unknown = "not checked: whether SageMaker accepts the change to the deployed endpoint"
    said = run(prod, SECOND, "--explain").stderr
    assert f"{unknown}; give --against REF with the deployed revision [{rules}]\n" in said
    ran = run(prod, SECOND, "--against", "nowhere")
    assert str(ran.exception).startswith("--against nowhere: Not a valid object name")
    before = sorted(prod.rglob("*.toml"))
    ran = run(prod, SECOND, "--against", "HEAD")
    assert (ran.return_value, "change-" in ran.stderr) == (0, False)
    assert sorted(prod.rglob("*.toml")) == before
    text = SCALED.replace('name = "ranker"', 'name = "new"')
    (prod / "environments" / "new.toml").write_text(text)
    assert run(prod, SECOND, "new", "--against", "HEAD").return_value == 0


@pytest.mark.long
def test_what_no_deploy_does_is_an_error_with_the_way_that_works_or_warned_of(
    prod: Path, commit: Commit
) -> None:
    renamed = VALID.replace("variants.primary", "variants.main") + GUARDED
    for before, after, code, said in [
        (VALID + QUEUE, VALID, 1, "cannot remove asynchronous inference"),
        (VALID, SERVERLESS, 1, "SageMaker cannot make variant primary serverless"),
        (SERVERLESS, VALID, 0, "rejects the change back"),
        (VALID, renamed, 1, "main is new"),
        (VALID, VALID.replace("c5", "m5"), 0, ""),
        (SCALED + "hold = true\n", SCALED.replace("c5", "m5"), 0, ""),
        (VALID + QUEUE, VALID.replace('"ranker"', '"other"', 1), 0, ""),
    ]:
        commit(before)
        ran = run(prod, after, "--against", "HEAD")
        assert (ran.return_value, said in ran.stderr) == (code, True)
        assert ("change-" in ran.stderr) == bool(said)
