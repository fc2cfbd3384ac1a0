"""The page of a comparison, and the comparison from its first answer to its verdict."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.replay import OutputTolerance, Replay
from servable.measured import document
from servable.measured.document import Cell, Tab, format_cell
from servable.replay.answers import AnswerPair
from servable.replay.command import _find_only_output
from servable.replay.compare import page
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import format_confidence, list_exceeded
from servable.verdict import GateVerdict
from servable_tensors import UNNAMED_OUTPUT
from servable_tensors.codecs import CSV
from tests.conftest import Environment
from tests.servable.replay.pairs import comparison_of, in_json, pair_of, pairs, recorded


def several(
    *, requests: int = 20, factor: float = 1.5, answered_ms: float = 4.0, failing: int = 0
) -> Iterator[AnswerPair]:
    """Pairs with a changed output "score", an equal "id", changed labels, latencies, and some failures."""
    for number in range(requests):
        before = {"predictions": [{"score": 1.0, "id": number, "label": "cat"}]}
        after = {"predictions": [{"score": factor, "id": number, "label": "cow"}]}
        expected = recorded(json.dumps(before).encode(), latency_ms=2.0)
        answered = recorded(json.dumps(after).encode(), latency_ms=answered_ms)
        if number < failing:
            answered = recorded(b"", status=500)
        yield pair_of(number, expected, answered)


NOT_MET, TOO_FEW = GateVerdict("NOT met", ["too many"]), GateVerdict("cannot be told", ["too few"])


@pytest.fixture
def changed() -> Comparison:
    return comparison_of(several())


def tabs_of(
    monkeypatch: pytest.MonkeyPatch, comparison: Comparison, gate: GateVerdict | None = None
) -> dict[str, Tab]:
    """Return the tabs of the page, without drawing the chart."""
    monkeypatch.setattr(page, "draw_shares", lambda comparison: b"chart")
    return {tab.id: tab for tab in page.build_tabs(comparison, gate)}


def texts(tab: Tab, table: int = 0) -> list[list[str]]:
    return [[format_cell(cell)[0] for cell in row.cells] for row in tab.tables[table].rows]


def test_the_page_begins_with_the_verdict_in_color_and_has_no_chart_without_differences(
    tmp_path: Path, changed: Comparison
) -> None:
    said = {"title": "a against b", "where": "captured: x"}
    text = page.write_page(tmp_path, changed, gate=NOT_MET, **said).read_text()
    names = [*changed.outputs, *said.values(), "too many"]
    assert [name for name in names if name not in text] == []
    body = text.partition("<h1>a against b</h1>")[2].lstrip()
    verdict = '<p><strong class="verdict does-not-hold">Does not hold</strong> The gate is not met: 20 of 20'
    assert body.startswith(verdict)
    (chart,) = (tmp_path / "pictures").iterdir()
    assert (chart.name, chart.read_bytes()[:4]) == ("outputs.png", b"\x89PNG")

    (tmp_path / "same").mkdir()
    same = comparison_of(pairs(lambda number, before: before, count=2))
    text = page.write_page(tmp_path / "same", same, title="t", where="", gate=None).read_text()
    assert "<p>0 of 8 rows differ (0 %) in 2 compared responses." in text
    assert ("No output differs." in text, "No request differs." in text) == (True, True)
    assert "Requests that differ most" not in text
    assert ("<img" in text, [*(tmp_path / "same" / "pictures").iterdir()]) == (False, [])


@pytest.mark.parametrize("gate", [GateVerdict("met"), NOT_MET, TOO_FEW, None])
def test_the_first_tab_has_the_sentences_of_the_gate_and_the_chart(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison, gate: GateVerdict | None
) -> None:
    first, last = tabs_of(monkeypatch, changed, gate).values()
    sentences = [] if gate is None else gate.lines or ["Every limit of the gate is met."]
    assert first.texts == [*sentences, f"{format_confidence(changed)}."]
    assert [picture.name for picture in first.pictures] == ["outputs"]
    titles = [table.title for tab in (first, last) for table in tab.tables]
    assert titles == ["Requests that differ most", "By output"]


def test_outputs_stand_with_counts_and_marks_and_ignored_ones_last(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    tab = tabs_of(monkeypatch, changed)["outputs"]
    rows = {row[0]: row[1:] for row in texts(tab)}
    # rows, differ, largest difference, tolerance, NaN, labels, top
    assert rows["score"] == ["20", "20", "0.5", "1e-5", "0", "0", ""]
    assert rows["id"][:2] == ["20", "0"]
    assert rows["label"] == ["20", "20", "", "exact", "0", "20", ""]
    assert texts(tab)[-1][0] == "id"

    infinite = in_json(0, *({"predictions": [[value]]} for value in (math.inf, 1.0)))
    assert texts(tabs_of(monkeypatch, comparison_of([infinite]))["outputs"])[0][5] == "1"

    marks = {row.cells[0]: row.mark for row in tab.tables[0].rows}
    assert marks == {"score": "failed", "label": "failed", "id": ""}
    for factor, first in [(1.0, "label: "), (1.5, "score: ")]:
        ignored = Replay(outputs={"id": OutputTolerance(ignored=True)})
        comparison = comparison_of(several(factor=factor), ignored)
        *differing, last = tabs_of(monkeypatch, comparison)["outputs"].texts
        assert last == "not compared, ignored by [replay.outputs]: id"
        assert differing[0].startswith(first)


def test_the_worst_requests_stand_with_their_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = comparison_of(several(requests=1, failing=1))
    reasons, severity, name, where = texts(tabs_of(monkeypatch, comparison)["differences"])[0]
    assert (reasons, severity, name) == ("status 500", "", "event-0")
    assert where.endswith("a.jsonl, line 1")

    numbers = (recorded(b'{"predictions": [[%d.0]]}' % value) for value in (100, 101))
    comparison = comparison_of([pair_of(0, *numbers)])
    # Off by 1 of 100, and the tolerance of numbers in JSON is 1e-5 of the number.
    assert texts(tabs_of(monkeypatch, comparison)["differences"])[0][1] == "1,000"


def test_the_result_is_one_sentence_and_unknown_numbers_leave_cells_empty() -> None:
    all_differ = "20 of 20 rows differ (100 %) in 20 compared responses."
    cases: list[tuple[GateVerdict | None, int, str]] = [
        (None, 0, all_differ),
        (NOT_MET, 0, f"The gate is not met: {all_differ}"),
        (TOO_FEW, 0, f"The gate is inconclusive: {all_differ}"),
        (None, 5, "15 of 15 rows differ (100 %) in 15 compared responses, and 5 requests failed."),
        (None, 20, "0 of 0 rows differ (0 %) in 0 compared responses, and 20 requests failed."),
    ]
    for gate, failing, text in cases:
        assert page.summarize(comparison_of(several(failing=failing)), gate) == text
    cells: list[Cell] = [math.nan, 0.0, 1234.0, ("", math.inf)]
    assert [*map(format_cell, cells)] == [("", None), ("0", 0), ("1,234", 1234), ("", math.inf)]


def test_the_only_output_is_the_signature_s(environment: Environment, project: Path) -> None:
    assert _find_only_output(environment(), None) == "prob"
    assert _find_only_output(None, None) == UNNAMED_OUTPUT

    stored = f'artifact = {{ uri = "s3://bucket/model.tar.gz", sha256 = "{"0" * 64}" }}'
    loaded = environment(**{'saved_model = "model"': stored})
    assert _find_only_output(loaded, None) == UNNAMED_OUTPUT
    for variant, name in [("primary", "prob"), ("other", UNNAMED_OUTPUT)]:
        assert _find_only_output(environment(), variant) == name

    loaded = environment()
    (project / "model" / "1" / "saved_model.pb").unlink()
    assert _find_only_output(loaded, None) == UNNAMED_OUTPUT

    pair = pair_of(0, recorded(b"0.5\n", CSV), recorded(b"0.75\n", CSV))
    assert list(comparison_of([pair], only_output="prob").outputs) == ["prob"]


# --- the pictures


def test_the_chart_has_the_largest_share_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "render_png", lambda figure: figure)

    def draw(comparison: Comparison) -> Any:
        figure: Any = page.draw_shares(comparison)
        (axes,) = figure.axes
        return axes

    def pair(number: int) -> AnswerPair:
        before = {"b": 1.0, "a": 1.0, "c": 1.0}
        after = before | {"a": 2.0} | ({"b": 2.0} if number < 5 else {})
        return in_json(number, {"predictions": [before]}, {"predictions": [after]})

    comparison = comparison_of(map(pair, range(10)))
    sentences = list_exceeded(comparison, Replay())
    assert [line.split(":")[0] for line in sentences] == ["Output a", "Output b"]
    axes = draw(comparison)
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert (names, [bar.get_width() for bar in axes.patches]) == (["a", "b"], [100.0, 50.0])
    assert [text.get_text() for text in axes.texts] == [" 100 %", " 50 %"]
    assert axes.get_yticks().tolist() == [1, 0]
    assert axes.get_xlim() == pytest.approx((0, 115))

    before = {f"{'x' * 20}{number:05}": 1.0 for number in range(20)} | {"x" * 24: 1.0}
    sides = ({"predictions": [dict.fromkeys(before, value)]} for value in (1.0, 2.0))
    axes = draw(comparison_of([in_json(0, *sides)]))
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert (len(names), names[0]) == (12, f"{'x' * 20}000…")

    sides = (recorded(b'{"predictions": [{"a": 1%s}]}' % more) for more in (b"", b', "b": 1'))
    axes = draw(comparison_of([pair_of(0, *sides)]))
    assert [text.get_text() for text in axes.texts] == [" added"]
