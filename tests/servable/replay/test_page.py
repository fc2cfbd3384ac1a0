"""The page of a comparison, and the comparison from its first answer to its verdict."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.parameters.loading import ValidFile
from infra.parameters.replay import OutputTolerance, Replay
from servable.load.curve_pictures import slower_than
from servable.pages import style
from servable.pages.document import Cell, Tab, shown
from servable.replay.answers import AnswerPair
from servable.replay.compare import page
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import ReplayVerdict, shown_line
from servable.replay.compare.judged import ReplayComparison, output_names
from servable.replay.compare.page import sentence
from servable_tensors.codecs import CSV
from tests.conftest import Environment
from tests.servable.replay.pairs import DEFAULTS, comparison_of, pair_of, pairs, recorded


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


NOT_MET, TOO_FEW = ReplayVerdict(exceeded=("too many",)), ReplayVerdict(missing=("too few",))


@pytest.fixture
def changed() -> Comparison:
    return comparison_of(several())


def tabs_of(
    monkeypatch: pytest.MonkeyPatch, comparison: Comparison, **given: Any
) -> dict[str, Tab]:
    """The tabs of the page, without drawing its pictures."""
    monkeypatch.setattr(page, "_differences", lambda comparison: b"differences")
    monkeypatch.setattr(page, "slower_than", lambda title, latencies: b"latency")
    settings = {"gate": None, "side_by_side": False} | given
    limits = settings.pop("limits", DEFAULTS)
    return {tab.id: tab for tab in page.tabs(comparison, limits, **settings)}


def texts(tab: Tab, table: int = 0) -> list[list[str]]:
    return [[shown(cell)[0] for cell in row.cells] for row in tab.tables[table].rows]


def test_the_page_names_every_output_and_has_its_pictures(
    tmp_path: Path, changed: Comparison
) -> None:
    file = page.write(
        tmp_path, changed, DEFAULTS, title="a against b", where="captured: x",
        gate=NOT_MET,
        side_by_side=False,
    )  # fmt: skip
    text = file.read_text()
    names = [*changed.outputs, "a against b", "captured: x", "too many"]
    assert [name for name in names if name not in text] == []
    pictures = {picture.name for picture in (tmp_path / "pictures").iterdir()}
    assert pictures == {"outputs.png", "latency.png"}
    for picture in (tmp_path / "pictures").iterdir():
        assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_page_of_nothing_compared_says_so(tmp_path: Path) -> None:
    nothing = comparison_of(iter([pair_of(0, None, recorded(b"{}"))]))
    file = page.write(
        tmp_path, nothing, DEFAULTS, title="t", where="", gate=None, side_by_side=False
    )
    text = file.read_text()
    assert ("No output differs." in text, "No request differs." in text) == (True, True)


def test_tabs_are_the_differences_the_outputs_and_the_latency(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    assert list(tabs_of(monkeypatch, changed, gate=ReplayVerdict())) == [
        "differences",
        "outputs",
        "latency",
    ]


@pytest.mark.parametrize("gate", [None, ReplayVerdict(), NOT_MET])
def test_the_first_tab_has_the_picture_and_the_requests_that_differ_most(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison, gate: ReplayVerdict | None
) -> None:
    first = next(iter(tabs_of(monkeypatch, changed, gate=gate).values()))
    assert (
        [picture.name for picture in first.pictures],
        [table.title for table in first.tables],
    ) == (
        ["outputs"],
        ["Requests that differ most"],
    )


def test_without_a_gate_no_limit_is_said_to_be_kept(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    texts = tabs_of(monkeypatch, changed)["differences"].texts
    assert texts == [f"{shown_line(changed)}."]


def test_without_captured_latencies_there_is_no_such_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = comparison_of(pairs(lambda number, before: before, count=2))
    assert "latency" not in tabs_of(monkeypatch, comparison)


@pytest.mark.parametrize("gate", [ReplayVerdict(), NOT_MET, TOO_FEW])
def test_the_first_tab_has_the_gates_sentences_or_says_that_it_is_kept(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison, gate: ReplayVerdict
) -> None:
    tab = tabs_of(monkeypatch, changed, gate=gate)["differences"]
    assert tab.texts[:-1] == (gate.lines or ["Every limit of the gate is kept."])


def test_outputs_stand_with_their_counts_the_one_that_differs_most_first(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    tab = tabs_of(monkeypatch, changed)["outputs"]
    rows = {row[0]: row[1:] for row in texts(tab)}
    # rows, differ, median, p99, largest (relative), largest (absolute), tolerance, NaN, labels, top
    assert rows["score"][:2] == ["20", "20"]
    assert rows["score"][4:] == ["0.5", "0.5", "1e-5", "0", "0", ""]
    assert rows["id"][:2] == ["20", "0"]
    assert rows["label"] == ["20", "20", "", "", "", "", "exact", "0", "20", ""]
    assert texts(tab)[-1][0] == "id"


@pytest.mark.parametrize(
    ("factor", "first"), [(1.0, "label: "), (1.5, "score: ")], ids=["labels", "a score"]
)
def test_outputs_that_are_ignored_are_named_after_those_that_differ(
    monkeypatch: pytest.MonkeyPatch, factor: float, first: str
) -> None:
    ignored = Replay(outputs={"id": OutputTolerance(ignored=True)})
    comparison = comparison_of(several(factor=factor), ignored)
    *differing, last = tabs_of(monkeypatch, comparison)["outputs"].texts
    assert last == "not compared, ignored by [replay.outputs]: id"
    assert differing[0].startswith(first)


def test_outputs_that_differ_are_marked(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    tab = tabs_of(monkeypatch, changed)["outputs"]
    marks = {row.cells[0]: row.mark for row in tab.tables[0].rows}
    assert marks == {"score": "failed", "label": "failed", "id": ""}


def test_labels_that_changed_stand_with_both_sides(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    tab = tabs_of(monkeypatch, changed)["outputs"]
    assert texts(tab, 1) == [["label", "cat", "cow", "20"]]


def test_without_a_changed_label_there_is_no_table_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    comparison = comparison_of(pairs(lambda number, before: before, count=2))
    assert len(tabs_of(monkeypatch, comparison)["outputs"].tables) == 1


def test_requests_that_differ_most_stand_with_their_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = comparison_of(several(requests=1, failing=1))
    reasons, severity, name, where = texts(tabs_of(monkeypatch, comparison)["differences"])[0]
    assert (reasons, severity, name) == ("status 500", "", "event-0")
    assert where.endswith("a.jsonl, line 1")


def test_a_requests_largest_difference_is_in_tolerances(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = (recorded(b'{"predictions": [[%d.0]]}' % value) for value in (100, 101))
    comparison = comparison_of(iter([pair_of(0, *numbers)]))
    # Off by 1 of 100, and the tolerance of numbers in JSON is 1e-5 of the number.
    assert texts(tabs_of(monkeypatch, comparison)["differences"])[0][1] == "1,000"


@pytest.mark.parametrize("requests", [20, 1000])
def test_ratios_of_latencies_stand_with_their_limits(
    monkeypatch: pytest.MonkeyPatch, requests: int
) -> None:
    comparison = comparison_of(several(requests=1))
    for _ in range(requests - 1):
        comparison.latency.add(2.0, 4.0)
    limits = Replay(p50_ratio=1.5, p99_ratio=None)
    median, p99 = texts(tabs_of(monkeypatch, comparison, limits=limits)["latency"])
    assert [float(text) for text in median[1:4]] == pytest.approx([2, 4, 2], rel=0.03)
    assert (median[0], median[4], median[5]) == ("p50", f"{median[3]} to {median[3]}", "1.5")
    known = [median[3], median[4]] if requests == 1000 else ["", "too few answers"]
    assert (p99[0], p99[3:5], p99[5]) == ("p99", known, "none")


@pytest.mark.parametrize(
    ("gate", "failing", "text"),
    [
        (None, 0, "20 of 20 rows differ (100 %) in 20 compared answers."),
        (ReplayVerdict(), 0, "Gate met: 20 of 20 rows differ (100 %) in 20 compared answers."),
        (
            NOT_MET,
            0,
            "Gate not met: 20 of 20 rows differ (100 %) in 20 compared answers.",
        ),
        (None, 5, "15 of 15 rows differ (100 %) in 15 compared answers, and 5 requests failed."),
        (None, 20, "0 of 0 rows differ (0 %) in 0 compared answers, and 20 requests failed."),
    ],
)
def test_the_answer_is_one_sentence(gate: ReplayVerdict | None, failing: int, text: str) -> None:
    assert sentence(comparison_of(several(failing=failing)), gate) == text


# --- from the first answer to the verdict


def judged(*, gate: bool = True, side_by_side: bool = False, **limits: Any) -> ReplayComparison:
    found = ReplayComparison(Replay(**limits), gate=gate, side_by_side=side_by_side, outputs=[])
    for pair in several(answered_ms=40.0):
        found.comparison.add(pair)
    return found


def test_without_a_gate_there_is_no_verdict() -> None:
    assert judged(gate=False).verdict() is None


def test_latencies_decide_only_side_by_side() -> None:
    several_ = [
        judged(side_by_side=side, differing_rows_share=1).verdict() for side in (False, True)
    ]
    assert [bool(verdict and verdict.exceeded) for verdict in several_] == [False, True]


def test_the_gate_is_shown_after_all_requests_were_sent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    judged().show(whole=False)
    part = capsys.readouterr().out
    judged().show(whole=True)
    whole = capsys.readouterr().out
    assert ("gate:" in part, "gate: NOT met\ngate: Output" in whole) == (False, True)
    assert part.startswith("compared: 20 of 20 requests; 20 of 20 rows differ (100 %)")


def test_a_gate_that_is_met_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    judged(differing_rows_share=1, detectable_share=0.15).show(whole=True)
    assert capsys.readouterr().out.splitlines()[-1] == "gate: met"


def test_an_answer_without_names_is_the_models_only_output() -> None:
    found = ReplayComparison(DEFAULTS, gate=False, side_by_side=False, outputs=["prob"])
    found.comparison.add(pair_of(0, recorded(b"0.5\n", CSV), recorded(b"0.75\n", CSV)))
    assert list(found.as_object()["outputs"]) == ["prob"]


def test_the_only_output_is_that_of_the_models_signature(environment: Environment) -> None:
    assert output_names(environment(), None) == ["prob"]


def test_a_model_that_is_elsewhere_has_no_known_output(environment: Environment) -> None:
    sha = "0" * 64
    stored = f'artifact = {{ uri = "s3://bucket/model.tar.gz", sha256 = "{sha}" }}'
    loaded: ValidFile = environment(**{'saved_model = "model"': stored})
    assert output_names(loaded, None) == []


@pytest.mark.parametrize("variant", ["primary", "other"])
def test_the_output_is_of_the_variant_that_is_asked(environment: Environment, variant: str) -> None:
    assert output_names(environment(), variant) == (["prob"] if variant == "primary" else [])


def test_a_model_whose_folder_is_empty_has_no_known_output(
    environment: Environment, project: Path
) -> None:
    loaded = environment()
    (project / "model" / "1" / "saved_model.pb").unlink()
    assert output_names(loaded, None) == []


def test_infinite_and_unknown_numbers_leave_cells_empty() -> None:
    cells: list[Cell] = [math.nan, 0.0, 1234.0, ("", math.inf)]
    assert [shown(cell) for cell in cells] == [
        ("", None),
        ("0", 0),
        ("1,234", 1234),
        ("", math.inf),
    ]


# --- the pictures


def drawn(monkeypatch: pytest.MonkeyPatch, draw: Any, *given: Any) -> Any:
    """The figure, in the place of its PNG."""
    with monkeypatch.context() as patch:
        patch.setattr(style, "png", lambda figure: figure)
        return draw(*given)


def test_bars_are_the_shares_of_rows_that_differ_the_largest_on_top(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    left, _ = drawn(monkeypatch, page._differences, changed).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    bars = dict(zip(names, left.patches, strict=True))
    assert {name: bar.get_width() for name, bar in bars.items()} == {
        "score": 100.0, "label": 100.0, "id": 0.0,
    }  # fmt: skip
    assert [text.get_text() for text in left.texts] == [" 100 %", " 100 %", " 0 %"]
    assert [text.xy for text in left.texts] == [(100, 2), (100, 1), (0, 0)]
    assert (names[-1], left.get_yticks().tolist()) == ("id", [2, 1, 0])
    assert left.get_xlim() == (0, 135)
    assert bars["id"].get_facecolor() != bars["score"].get_facecolor()


def test_an_outputs_differences_are_drawn_from_the_median_to_the_largest_beside_its_tolerance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    comparison = comparison_of(
        iter(
            pair_of(number, recorded(b'{"predictions": [1.0]}'), recorded(
                json.dumps({"predictions": [1.0 + value]}).encode()))
            for number, value in enumerate([0.1] * 6 + [0.4])
        )
    )  # fmt: skip
    _, right = drawn(monkeypatch, page._differences, comparison).axes
    tolerance, span, median, p99, largest = right.collections
    assert tolerance.get_segments()[0].tolist() == [[1e-5, -0.35], [1e-5, 0.35]]
    assert span.get_segments()[0][:, 0] == pytest.approx([0.1, 0.4], rel=0.03)
    points = [float(dots.get_offsets()[0, 0]) for dots in (median, p99, largest)]
    assert points == [pytest.approx(value, rel=0.03) for value in (0.1, 0.4, 0.4)]
    labels = [dots.get_label() for dots in (tolerance, median, p99, largest)]
    assert labels == ["tolerance", "median", "p99", "largest"]
    assert (right.get_xscale(), right.get_ylim()) == ("log", (-0.6, 0.6))


def test_an_output_without_a_tolerance_is_said_to_be_compared_exactly(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    _, right = drawn(monkeypatch, page._differences, changed).axes
    assert [text.get_text() for text in right.texts] == ["compared exactly"] * 2
    (medians,) = (dots for dots in right.collections if dots.get_label() == "median")
    assert len(medians.get_offsets()) == 1


def test_long_names_are_cut_and_no_more_outputs_are_drawn_than_a_picture_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = {f"{'x' * 20}{number:05}": 1.0 for number in range(20)} | {"x" * 24: 1.0}
    body = recorded(json.dumps({"predictions": [before]}).encode())
    left, _ = drawn(
        monkeypatch, page._differences, comparison_of(iter([pair_of(0, body, body)]))
    ).axes
    names = [label.get_text() for label in left.get_yticklabels()]
    assert (len(names), names[0]) == (12, f"{'x' * 20}000…")
    assert left.get_figure().get_size_inches()[1] == pytest.approx(2.6 + 0.42 * 12)


def test_latencies_are_drawn_for_both_sides_on_logarithmic_axes(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    sides = [
        (name, changed.latency.latencies(side)) for side, name in enumerate(("before", "after"))
    ]
    (axes,) = drawn(monkeypatch, slower_than, "title", sides).axes
    curves = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
    assert [line.get_label() for line in curves] == ["before", "after"]
    first = [line.get_xydata()[0] for line in curves]
    assert np.array(first) == pytest.approx(np.array([[2, 100], [4, 100]]), rel=0.03)
    assert (axes.get_xscale(), axes.get_yscale(), axes.get_ylim()) == ("log", "log", (0.08, 130))
    assert axes.get_yticks().tolist() == [100, 50, 10, 5, 1, 0.1]


def test_answers_that_all_took_equally_long_are_drawn_too(
    monkeypatch: pytest.MonkeyPatch, changed: Comparison
) -> None:
    (axes,) = drawn(monkeypatch, slower_than, "", [("a", changed.latency.latencies(0))]).axes
    dots = [line.get_ydata()[0] for line in axes.lines if line.get_marker() == "o"]
    assert dots == [50, 10, 5, 1]
