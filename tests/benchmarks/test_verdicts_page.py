"""docs/verdicts.md: the table is what was measured last, and counts what is wrong."""

import json
from pathlib import Path

import pytest

from benchmarks import verdicts
from tests.checkouts import ROOT

PAGE = verdicts.PAGE.read_text(encoding="utf-8")
COMMANDS = (
    "check",
    "check --run",
    "load --gate",
    "tune",
    "verify",
    "replay --gate",
    "rehearse",
    "plan",
)
PAGES = ("reference/rules", "tuning", "operating", "replay", "scaling", "updating", "pipelines")


def test_a_verdict_is_wrong_where_it_says_the_contrary() -> None:
    for passes, counts in [
        (True, [5, 3, 1, 1, 1]),
        (False, [5, 3, 1, 1, 3]),
        (None, [5, 3, 1, 1, 0]),
    ]:
        said = ["met", "holds", "better", "NOT met", "cannot be told"]
        assert verdicts.count_verdicts(passes, said) == counts
    assert verdicts.count_verdicts(None, ["better", "falsely better"]) == [2, 2, 0, 0, 1]


def test_the_table_is_what_was_measured_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "verdicts.md"
    copy.write_text(PAGE.partition("|load|")[0], encoding="utf-8")
    monkeypatch.setattr(verdicts, "PAGE", copy)
    verdicts.write_table()
    assert copy.read_text(encoding="utf-8") == PAGE
    measured = json.loads(verdicts.FILE.read_text(encoding="utf-8"))
    assert set(measured) <= set(verdicts.MEASURES)
    assert sum(len(result["cases"]) for result in measured.values()) <= 60


def test_every_verdict_has_a_row_and_the_pages_of_the_commands_link_to_it() -> None:
    for command in COMMANDS:
        assert f"| [`{command}`](" in PAGE
    for name in PAGES:
        assert "verdicts.md" in (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
