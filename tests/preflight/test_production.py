"""Production is what the file says, or else what its name says."""

from pathlib import Path

import pytest

from infra.parameters.loading import load
from infra.preflight.check import check
from tests.conftest import VALID

UNSAID = VALID.replace("production = false\n", "")
SAID = VALID.replace("production = false", "production = true")


def warned(project: Path, name: str, text: str) -> bool:
    (project / "environments" / f"{name}.toml").write_text(text)
    (loaded,) = load(project, project / "environments")
    return "capacity-single" in [finding.rule for finding in check(loaded)]


@pytest.mark.parametrize(
    ("name", "warns"),
    [("prod", True), ("production-eu", True), ("dev", False), ("reproduction", False)],
)
def test_a_name_that_begins_with_prod_is_production(project: Path, name: str, warns: bool) -> None:
    assert warned(project, name, UNSAID) is warns


@pytest.mark.parametrize(("text", "warns"), [(SAID, True), (VALID, False)])
@pytest.mark.parametrize("name", ["prod", "dev"])
def test_the_files_word_is_above_its_name(project: Path, name: str, text: str, warns: bool) -> None:
    assert warned(project, name, text) is warns


def test_a_variant_without_traffic_needs_no_spare(project: Path) -> None:
    second = VALID[VALID.index("[variants") :].replace("primary", "second") + "weight = 0\n"
    assert not warned(project, "prod", f"{UNSAID}min_instances = 2\n{second}")
