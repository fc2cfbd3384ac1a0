"""The frame of every benchmark: what it writes, shows, and returns; and the page of verdicts."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import frame, verdicts
from tests.checkouts import ROOT

COMPUTER = "2 cores"
PAGE = verdicts.PAGE.read_text(encoding="utf-8")
COMMANDS = ("check", "check --run", "tune", "verify", "rehearse", "plan")
COMMANDS += ("load --gate", "replay --gate")
PAGES = ("reference/rules", "tuning", "operating", "replay", "scaling", "updating", "pipelines")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of our own, which measures the ratios that stand in its file `ratios`."""

    def measure(folder: Path, log: frame.Log) -> frame.Result:
        ratios = json.loads((tmp_path / "ratios").read_text(encoding="utf-8"))
        return {"table": {"ours": {"seconds": [1234.5]}}, "ratios": ratios}

    own = SimpleNamespace(
        TITLE="Own", TEXT="What it is.\n", CLAIMS=False, BOUNDS={"a / b": (2, 3)}, measure=measure
    )
    monkeypatch.setattr(frame, "load_benchmark", lambda name: own)
    monkeypatch.setattr(frame, "describe_computer", lambda: COMPUTER)
    monkeypatch.setattr(frame, "RESULTS", tmp_path)
    monkeypatch.setattr(frame, "PAGE", tmp_path / "performance.md")
    monkeypatch.setattr(frame, "NAMES", ("own",))
    return tmp_path


@pytest.mark.parametrize(
    ("ratio", "code", "row"),
    [
        ([2.0, 1.0, 4.0], 0, "|a / b|2x (1-4)|2x-3x|met|"),
        ([1.99, 1.0, 4.0], 1, "|a / b|1.99x (1-4)|2x-3x|**not met**|"),
        ([3.01], 1, "|a / b|3.01x|2x-3x|**not met**|"),
    ],
)
def test_a_bound_is_for_the_median_and_decides_the_exit_code(
    folder: Path, ratio: list[float], code: int, row: str
) -> None:
    (folder / "ratios").write_text(json.dumps({"a / b": ratio}), encoding="utf-8")
    assert frame.main("own") == code
    page = (folder / "performance.md").read_text(encoding="utf-8")
    assert row in page
    assert "|ours|1,234|" in page or "|ours|1,235|" in page
    assert f"`make bench-own`: {COMPUTER}." in page


def test_a_claim_is_no_failure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame.load_benchmark("own"), "CLAIMS", True)
    for ratio, word in (([2.5, 2.0, 3.0], "shows"), ([2.5, 1.9, 3.0], "doesn't show")):
        (folder / "ratios").write_text(json.dumps({"a / b": ratio}), encoding="utf-8")
        assert frame.main("own") == 0
        assert f"|{word}|" in (folder / "performance.md").read_text(encoding="utf-8")


def test_what_was_not_measured_is_said(folder: Path) -> None:
    assert "`make bench-own` hasn't been run." in frame.format_section("own")


def test_performance_md_is_what_the_results_make_and_every_ratio_has_a_bound() -> None:
    """Otherwise `python -m benchmarks page` writes it again."""
    sections = [frame.HEAD, *map(frame.format_section, frame.NAMES)]
    assert frame.PAGE.read_text(encoding="utf-8") == "\n".join(sections)
    assert len("\n".join(sections).split()) <= 1_500
    files = [frame.RESULTS / f"{name}.json" for name in frame.NAMES]
    for file in (file for file in files if file.exists()):
        measured = json.loads(file.read_text(encoding="utf-8"))["ratios"]
        assert set(measured) <= set(frame.load_benchmark(file.stem).BOUNDS)


def test_each_repeat_starts_with_a_different_way_and_has_its_own_ratio() -> None:
    assert [*frame.take_turns("abc", 3)] == [*"abc", *"bca", *"cab"]
    assert frame.divide([2.0, 9.0], [1.0, 3.0]) == [2.5, 2.0, 3.0]


def test_a_verdict_is_wrong_where_it_says_the_contrary() -> None:
    said = ["met", "holds", "better", "NOT met", "cannot be told"]
    for passes, wrong in ((True, 1), (False, 3), (None, 0)):
        assert verdicts.count_verdicts(passes, said) == [5, 3, 1, 1, wrong]
    assert verdicts.count_verdicts(None, ["better", "falsely better"]) == [2, 2, 0, 0, 1]


def test_the_table_is_of_the_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
