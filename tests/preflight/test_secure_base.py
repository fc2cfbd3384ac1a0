"""environments/secure-base.toml asks for every id it needs, in one error, and for no other."""

import shutil
from pathlib import Path

from infra.parameters.loading import Loaded, load
from infra.preflight.check import check, select_errors
from tests.checkouts import ROOT
from tests.conftest import valid

BARE = 'extends = "secure-base"\naccount = "111111111111"\n[endpoint]\nname = "ranker"\n'


def loaded(folder: Path, text: str) -> Loaded:
    for name in ("base.toml", "secure-base.toml"):
        shutil.copy(ROOT / "environments" / name, folder)
    (folder / "prod.toml").write_text(text)
    (found,) = load(ROOT, folder)
    return found


def said(folder: Path, text: str) -> list[str]:
    return [error.problem for error in select_errors(check(loaded(folder, text)))]


def test_the_ids_that_the_file_needs_are_asked_for_in_one_error(tmp_path: Path) -> None:
    assert said(tmp_path, BARE) == [
        "security.require needs ids that are missing: network.subnets, "
        "network.security_groups, endpoint.volume_kms_key, endpoint.log_kms_key, "
        "alarms.topic_kms_key, capture.kms_key, endpoint.archive_kms_keys"
    ]

    text = BARE + '[variants.primary]\ninstance_type = "ml.g4dn.xlarge"\n'
    (problem,) = said(tmp_path, text)
    assert "volume_kms_key" not in problem

    pinned = f'artifact = {{ uri = "s3://runs/17/model.tar.gz", sha256 = "{"0" * 64}" }}'
    text = f"{BARE}[asynchronous]\n[models.other]\n{pinned}\n"
    (problem,) = said(tmp_path, text)
    assert {"asynchronous.kms_key", "models.other.artifact.kms_key"} <= set(problem.split(", "))

    problem = said(tmp_path, BARE.replace("secure-base", "base"))
    assert problem == []


def test_with_its_ids_it_may_be_deployed_isolated_and_captured(tmp_path: Path) -> None:
    for form in ["cpu", "g4dn"]:
        text = (ROOT / "scripts" / "secure" / f"{form}.toml").read_text()
        assert said(tmp_path, text) == []

    text = (ROOT / "scripts" / "secure" / "cpu.toml").read_text()
    found = valid(loaded(tmp_path, text)).environment
    assert (
        found.security.network_isolation,
        found.capture is not None,
        found.endpoint.log_retention_days,
        found.endpoint.log_removal,
    ) == (True, True, 365, "retain")
