"""The frame of every benchmark: what it writes, shows and returns."""

from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import frame
from benchmarks.tables import Bound, spread

VALUES = st.lists(st.floats(0.1, 100), min_size=1, max_size=7)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A benchmark of our own, whose result and page lie in this folder."""
    (tmp_path / "page.md").write_text("{result[ran]} times", encoding="utf-8")
    report = SimpleNamespace(fields=lambda _: {}, met=lambda result: result["ran"] < 2)
    monkeypatch.setattr(frame, "result_file", lambda name: tmp_path / "result.json")
    monkeypatch.setattr(frame, "_benchmark", lambda name: report)
    monkeypatch.setattr(frame, "SECTIONS", {"own": "Own"})
    monkeypatch.setattr(frame, "PAGE", tmp_path / "performance.md")
    return tmp_path


def interrupted(*_: Any) -> Any:
    raise KeyboardInterrupt


@given(VALUES, st.floats(0.1, 100))
def test_a_bound_s_row_says_met_exactly_where_the_median_is_within(
    values: list[float], most: float
) -> None:
    row = Bound(label="seconds", values=values, most=most).row()
    assert ("| met |" in row) == (median(values) <= most)


@given(VALUES, st.floats(0.1, 100))
def test_a_least_is_a_bound_from_below(values: list[float], least: float) -> None:
    assert Bound(label="rate", values=values, least=least).met == (median(values) >= least)


def test_what_was_not_repeated_has_no_spread() -> None:
    assert spread([1234.5]) == "1,234"


def test_performance_md_is_what_the_results_and_the_pages_of_benchmarks_make() -> None:
    """Else `python -m benchmarks.frame` writes it again."""
    assert frame.PAGE.read_text(encoding="utf-8") == frame.markdown()


def test_the_page_shows_what_was_measured(folder: Path) -> None:
    frame.main("own", lambda *_: {"ran": 1})
    assert "1 times" in (folder / "performance.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("ran", "code"), [(1, 0), (2, 1)])
def test_a_bound_that_is_not_met_is_the_exit_code(folder: Path, ran: int, code: int) -> None:
    assert frame.main("own", lambda *_: {"ran": ran}) == code


def test_an_interrupted_run_writes_no_result(folder: Path) -> None:
    assert (frame.main("own", interrupted), [*folder.glob("*.json")]) == (130, [])
