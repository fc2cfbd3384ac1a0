"""The page of a comparison: its picture, its table and its diff beside the file's own day."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from infra.parameters.loading import ValidFile
from servable.rehearse.command import rehearse
from servable.rehearse.output import stretches
from tests.servable.rehearse.test_compare import HOUR, SPARSE

pytestmark = pytest.mark.long


@pytest.fixture
def folder(
    environment: Callable[..., ValidFile], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Path:
    monkeypatch.chdir(environment(SPARSE).root)
    (tmp_path / "hour.csv").write_text(HOUR)
    day = ("--traffic", str(tmp_path / "hour.csv"), "--days", "5")
    page = ("--output", str(tmp_path / "page"))
    answer = CliRunner().invoke(rehearse, ["prod", *day, "--compare", "minimum=1,9", *page])
    assert answer.exception is None, answer.output
    return tmp_path / "page"


def test_the_page_has_the_picture_and_the_diff_of_the_best(folder: Path) -> None:
    page = (folder / "report.html").read_text()
    held = [
        "better than the file&#39;s policy: minimum 9" in page,
        "+min_instances = 9 #" in page,
        (folder / "pictures" / "comparison.png").is_file(),
        (folder / "pictures" / "day.png").is_file(),
    ]
    assert held == [True] * 4


def test_minutes_that_follow_one_another_are_one_stretch() -> None:
    assert stretches([3, 4, 5, 9, 11, 12]) == [(3, 5), (9, 9), (11, 12)]
