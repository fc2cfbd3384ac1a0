"""Production is what the file says, or else what its name says."""

from pathlib import Path

from infra.parameters.loading import load
from infra.preflight.check import check
from tests.conftest import VALID

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
