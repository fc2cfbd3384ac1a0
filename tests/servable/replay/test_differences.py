"""The difference of two arrays, the statistics of a stream, the gate's limits, and how each is said."""

import io
import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from infra.parameters.replay import OutputTolerance, Replay, TypeTolerances
from servable.answers.differences import (
    ArrayDifference,
    Tolerance,
    compare_arrays,
    select_tolerance,
    sum_magnitudes,
)
from servable.answers.outputs import WHOLE_BODY, read_outputs
from servable.replay.answers import AnswerPair
from servable.replay.compare import comparison as comparison_module
from servable.replay.compare import gate
from servable.replay.compare.comparison import WORST, Comparison, _compute_scales, _explain
from servable.replay.compare.gate import check_limits, list_exceeded
from servable.replay.compare.output import build_json, format_lines
from servable.verdict import GateVerdict
from servable_tensors.codecs import CSV, JSON_LINES, NPY
from tests.servable.replay.pairs import comparison_of, in_json, pair_of, recorded

EXACT = Tolerance(0.0)


def numbers(
    expected: Any, answered: Any, tolerance: Tolerance | None = None, *, tops: tuple[int, ...] = ()
) -> ArrayDifference:
    was, now = (np.asarray(one, np.float32) for one in (expected, answered))
    return compare_arrays(was, now, tolerance or EXACT, rows=len(was), typed=True, tops=tops)


# --- arrays
def test_a_difference_is_relative_to_the_largest_of_the_row_and_to_its_tolerance() -> None:
    found = numbers([[4.0, 1.0], [2.0, 2.0]], [[4.0, 2.0], [2.0, 2.0]])
    assert (found.largest, found.row_changes.tolist()) == (0.25, [True, False])
    for by, differs in [(0.25, False), (0.2499, True)]:
        found = numbers([[4.0, 1.0]], [[4.0, 2.0]], Tolerance(by))
        assert found.severity == pytest.approx(0.25 / by)
        assert bool(found.row_changes.any()) == differs

    tolerance = Tolerance(0.5, absolute=0.25)
    found = numbers([[1.0], [100.0]], [[1.75], [150.5]], tolerance)
    assert found.row_changes.tolist() == [False, True]
    found = [comparison_of(pairs_of(value, expected=1)).differing_rows for value in (1.000001, 1.1)]
    assert found == [0, 1]


def test_nan_and_infinity_count_only_on_one_side() -> None:
    nan, infinity = math.nan, math.inf
    expected = [[nan, 1], [nan, nan], [infinity, 1], [-infinity, 2], [1, 1]]
    found = numbers(expected, [[1, 1], [nan, 1], [1, 1], [infinity, 2], [1, 1]])
    assert (found.nan_rows, found.infinite_rows, found.largest) == (2, 2, 0)
    assert (found.row_changes.tolist(), found.severity) == ([True] * 4 + [False], math.inf)

    values = [nan, infinity, -infinity, 1.0]
    assert numbers([values], [values]).is_equal
    assert numbers([[*values, 1.0]], [[*values, 1.0]]).severity == 0.0


def test_the_magnitude_of_numbers_leaves_out_masks() -> None:
    cases: list[tuple[Any, float, int]] = [
        (np.array([1.0, -3.0, 1e9, 2.0]), 6.0, 3),
        (np.array([3 + 4j]), 5.0, 1),
        (np.array([-2, 2]), 4.0, 2),
        (np.array([True]), 0.0, 0),
        (np.array([]), 0.0, 0),
        (np.array([b"a"], object), 0.0, 0),
    ]
    for array, total, count in cases:
        assert sum_magnitudes(array) == pytest.approx((total, count))


def test_an_outputs_tolerance_is_its_own_else_its_types() -> None:
    cases: list[tuple[str, bool, bool, OutputTolerance | None, Tolerance | None]] = [
        ("f2", True, False, None, Tolerance(0.1, None, 2.0)),
        ("f4", True, False, None, Tolerance(0.3, None, 2.0)),
        ("f8", True, False, None, Tolerance(0.4, None, 2.0)),
        ("f8", False, False, None, Tolerance(0.3, None, 2.0)),
        ("f4", True, True, None, Tolerance(0.2, None, 2.0)),
        ("c8", True, False, None, Tolerance(0.3, None, 2.0)),
        ("c16", True, False, None, Tolerance(0.4, None, 2.0)),
        ("i4", True, False, None, None),
        ("?", True, False, OutputTolerance(relative=0.5), None),
        ("i4", True, False, OutputTolerance(relative=0.5), Tolerance(0.5, None, 2.0)),
        ("f4", True, False, OutputTolerance(), Tolerance(0.3, None, 2.0)),
        ("f4", True, False, OutputTolerance(absolute=1.0), Tolerance(0.0, 1.0)),
        ("f4", True, False, OutputTolerance(absolute=1.0, relative=0.5), Tolerance(0.5, 1.0)),
    ]
    for dtype, typed, bfloat16, given_, expected in cases:
        types = TypeTolerances(float16=0.1, bfloat16=0.2, float32=0.3, float64=0.4)
        how: dict[str, Any] = {"typed": typed, "bfloat16": bfloat16, "scale": 2.0}
        assert select_tolerance(np.zeros(1, dtype), types, given_, **how) == expected


def test_labels_that_changed_and_values_that_cannot_be_compared_are_named() -> None:
    labels = ([b"cat", b"dog", b"\xff"], [b"cat", b"cow", b"x"])
    was, now = (np.array(each, object) for each in labels)
    found = compare_arrays(was, now, None, rows=3, typed=True, tops=())
    assert (found.labels, found.row_changes.tolist()) == (2, [False, True, True])
    assert found.severity == math.inf
    cases: list[tuple[Any, Any, bool, str]] = [
        (np.zeros(2, "f4"), np.zeros(2, "f8"), True, "type float32 became float64"),
        (np.zeros(2, "f4"), np.zeros(2, "f8"), False, ""),
        (np.zeros(2, "f4"), np.zeros(3, "f4"), True, "shape [2] became [3]"),
        (np.zeros(2, "c8"), np.zeros(2, "f4"), True, "type complex number became number"),
        (np.zeros(2, "?"), np.zeros(2, "i4"), False, "type truth value became number"),
    ]
    for expected, answered, typed, problem in cases:
        found = compare_arrays(expected, answered, EXACT, rows=2, typed=typed, tops=())
        assert (found.problem, bool(found.row_changes.all())) == (problem, bool(problem))


def test_the_highest_scores_are_compared_as_sets_with_or_without_rows() -> None:
    cases: list[tuple[list[list[int]], list[list[int]], dict[int, int]]] = [
        ([[1, 2, 3, 4]], [[1, 2, 4, 3]], {1: 1, 2: 0, 3: 0}),
        ([[1, 2, 3, 4]], [[4, 3, 2, 1]], {1: 1, 2: 1, 3: 1}),
        ([[1, 2, 3, 4], [1, 2, 3, 4]], [[1, 2, 3, 5], [2, 1, 3, 4]], {1: 0, 2: 0, 3: 1}),
    ]
    for expected, answered, top in cases:
        assert numbers(expected, answered, tops=(1, 2, 3, 4)).top == top

    rise, fall = [1.0, 2.0, 3.0], [3.0, 2.0, 1.0]
    for was, now in ((rise, fall), ([rise, rise], [fall, rise])):
        arrays = np.array(was), np.array(now)
        assert compare_arrays(*arrays, EXACT, rows=1, typed=True, tops=(1,)).top == {1: 1}

    was, now = np.array([[1 + 1j], [1 + 1j]]), np.array([[1 + 2j], [1 + 1j]])
    found = compare_arrays(was, now, EXACT, rows=2, typed=True, tops=(1,))
    assert (found.row_changes.tolist(), found.top) == ([True, False], {})


# --- reasons, shares and sentences
def test_differences_and_numbers_are_written_as_people_write_them() -> None:
    several = "NaN on one side, 1 labels changed, the highest score changed"
    cases: list[tuple[dict[str, Any], str]] = [
        ({"problem": "missing"}, "missing"),
        ({"infinite_rows": 1}, "infinity on one side"),
        ({"labels": 1200}, "1,200 labels changed"),
        ({"top": {1: 0, 5: 1}}, ""),
        ({"largest": 0.25}, "off by 0.25 of the row's largest number"),
        ({"nan_rows": 1, "labels": 1, "top": {1: 1}}, several),
    ]
    for difference, reason in cases:
        assert _explain(ArrayDifference(changed=np.ones((1, 1), bool), **difference)) == reason
    for text, expected in [
        (gate.format_difference(0.00612), "0.0061"),
        (gate.format_difference(4.2e-8), "4.2e-8"),
        (gate.format_percent(0.1234), "12.3 %"),
        (gate.format_percent(0.0001), "0.01 %"),
        (gate.format_percent(0), "0 %"),
        (gate.format_percent(1), "100 %"),
        (gate.format_percent_of(10, 10), "100 %"),
        (gate.format_percent_of(1, 6_000), "0.02 %"),
        (gate.format_percent_of(31, 37_224), "0.08 %"),
        (gate.format_percent_of(1_000, 6_000), "17 %"),
        (gate.format_percent_of(500_000, 600_000), "83.3 %"),
    ]:
        assert text == expected


def pairs_of(*answered: object, expected: object = 1.0) -> Iterator[AnswerPair]:
    """Requests whose expected answer is `expected`, and whose answers are these."""
    for number, value in enumerate(answered):
        yield in_json(number, {"predictions": [expected]}, {"predictions": [value]})


def failing(count: int, *, of: int) -> Comparison:
    good, failed = recorded(b'{"predictions": [1.0]}'), recorded(b"", status=500)
    answers = [failed] * count + [good] * (of - count)
    return comparison_of(pair_of(number, good, each) for number, each in enumerate(answers))


def test_each_share_may_be_as_large_as_its_limit() -> None:
    limits = Replay(error_share=0.1)
    assert list_exceeded(failing(1, of=10), limits) == []
    assert list_exceeded(failing(2, of=10), limits) == [
        "2 of 10 requests failed (20 %; at most 10 %): 2 x status 500."
    ]
    limits = Replay(differing_rows_share=0.1)
    assert list_exceeded(comparison_of(pairs_of(2.0, *[1.0] * 9), limits), limits) == []
    sentence, *_ = list_exceeded(comparison_of(pairs_of(2.0, 2.0, *[1.0] * 8), limits), limits)
    assert sentence.startswith("Output output: 2 of 10 rows differ (20 %; at most 10 %)")

    several = [{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 2.0}, *[{"a": 1.0, "b": 1.0}] * 8]
    found = comparison_of(pairs_of(*several, expected=several[-1]), limits)
    said = ["2 of 10 rows differ in some output (at most 10 %)."]
    assert list_exceeded(found, limits) == said
    said = [
        "Output output: the largest difference is 0.5 of the row's largest number (at most 0.49)."
    ]
    for most, sentences in [(0.5, []), (0.49, said)]:
        limits = Replay(differing_rows_share=1, largest_difference=most)
        assert list_exceeded(comparison_of(pairs_of(1.5, 1.0), limits), limits) == sentences


def test_added_outputs_and_the_worst_requests_are_said_up_to_five_in_finite_numbers() -> None:
    verdict = check_limits(comparison_of([]), Replay())
    assert verdict.lines == ["No request was replayed, so there are no responses to compare."]
    (sentence,) = list_exceeded(failing(3, of=3), Replay())
    assert sentence == "3 of 3 requests failed (100 %; at most 0 %): 3 x status 500."

    before, after = {"predictions": [{"a": 1.0, "b": 5.0}]}, {"predictions": [{"a": 1.0, "c": 7.0}]}
    cut = pair_of(1, recorded(b'{"predictions": [{"b": 5}]}'), recorded(b'{"predictions": [{'))
    found = comparison_of([in_json(0, before, after), cut])
    said = {name: gate.describe_difference(one) for name, one in found.outputs.items()}
    assert "it is missing in 2 responses" in said["b"]
    assert said["c"] == "it was added to 1 response"
    assert said["body"].startswith(f"{said['c']}; a response that can't be read")

    found = comparison_of(pairs_of(*(1.0 + number for number in range(1, 9))))
    shown = [one for one in format_lines(found) if "differs most" in one]
    lines = [one.split(", line ")[1].split(",")[0] for one in shown]
    assert lines == ["8", "7", "6", "5", "4"]

    infinite = comparison_of(pairs_of(1.0, expected=0.0))
    stored = build_json(infinite, Replay(), None)
    assert stored["outputs"]["output"]["largest_difference"] == 1.7976931348623157e308
    assert json.loads(json.dumps(stored, allow_nan=False)) == stored


def test_lines_count_what_was_compared_and_what_was_not() -> None:
    refused = recorded(b"", "", status=400)
    good, other = (recorded(b'{"predictions": [%d.5]}' % value) for value in (1, 2))
    pairs = [
        *((good, good), (good, other), (None, good), (good, refused)),
        *((refused, good), (refused, good), (refused, refused), (None, refused)),
    ]
    found = comparison_of(pair_of(number, *pair) for number, pair in enumerate(pairs))
    shown = format_lines(found)
    assert shown[:5] == [
        "compared: 2 of 8 requests; 1 of 2 rows differ (50 %)",
        "1 of 2 rows show that fewer than 100 % of all rows differ, with 95 % confidence",
        "without a captured response: 2",
        "failed: 2, although the expected response isn't an error",
        "expected errors: 1 failed again, 2 succeed now",
    ]
    assert shown[5].startswith("  output: 1 of 2 rows differ (50 %)")
    stored = build_json(found, Replay(), GateVerdict("NOT met", ["x"]))
    names = ("requests", "compared", "without_expected", "answered_now", "failed_on_both")
    assert [stored[name] for name in names] == [8, 2, 2, 2, 1]
    assert (stored["errors"], stored["shown"]["least_rows"]) == ({"status 400": 2}, 3000)
    assert stored["gate"] == {"held": False, "verdict": "NOT met", "lines": ["x"]}


def test_answers_errors_and_the_worst_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = [recorded(b"", error=f"kind {number % 25}") for number in range(26)]
    errors = comparison_of(pair_of(0, recorded(b"{}"), each) for each in failed).errors
    assert (len(errors), errors["other errors"], errors["kind 0"]) == (21, 5, 2)

    for values, numbers_kept in (
        ([2.0] * 2 * WORST, range(WORST)),
        ([1.0 + number for number in range(3 * WORST)], range(3 * WORST - 1, 2 * WORST - 1, -1)),
    ):
        kept = comparison_of(pairs_of(*values)).worst_requests
        assert [one.pair.request.event_id for one in kept] == [f"event-{n}" for n in numbers_kept]
    monkeypatch.setattr(comparison_module, "_WORST_BYTES", 1)
    found = comparison_of(pairs_of(2.0, 4.0, 3.0))
    assert [one.pair.request.event_id for one in found.worst_requests] == ["event-1"]

    # --- bounded memory
    monkeypatch.setattr(comparison_module, "_HELD_PAIRS", 3)
    comparison = Comparison(Replay())
    counts = []
    for pair in pairs_of(1.0, 1.0, 1.0, 1.0):
        comparison.add(pair)
        counts.append(comparison.compared)
    assert counts == [0, 0, 3, 4]

    comparison = Comparison(Replay())
    for pair in (*pairs_of(9.0, expected=1.0), *pairs_of(9.0, expected=3.0)):
        comparison.add(pair)
    assert _compute_scales(comparison._held) == {"output": 2.0}

    (pair,) = pairs_of(1.0)
    assert pair.expected_response is not None
    size = len(pair.expected_response.body) + len(pair.answered.body) + len(pair.request.body)
    monkeypatch.setattr(comparison_module, "_HELD_BYTES", 2 * size)
    comparison = Comparison(Replay())
    for _ in range(2):
        comparison.add(pair)
    assert comparison.compared == 2


def test_bodies_are_read_by_their_content_type_or_their_first_bytes() -> None:
    cases: list[tuple[bytes, str, int, dict[str, Any]]] = [
        (b"1,2\n3,4\n", CSV, 2, {"output": [[1, 2], [3, 4]]}),
        (b"1.5\n\n2\n", CSV, 2, {"output": [[1.5], [2.0]]}),
        (b"a,1\nb,2\n", CSV, 2, {"column 1": [b"a", b"b"], "column 2": [1, 2]}),
        (b"a\nb,c\n", CSV, 2, {"output": [b"a", b"b,c"]}),
        (b'{"a": 1}\n\n{"a": 2}\n', JSON_LINES, 2, {"a": [1, 2]}),
        (b'{"x": null}', "application/json", 1, {"x": b"null"}),
        (b'  {"predictions": [1]}', "", 1, {"output": [1]}),
        (b'{"predictions": [1]}', "application/vnd.x+json", 1, {"output": [1]}),
        (b"plain", "text/plain", 1, {WHOLE_BODY: [b"plain"]}),
        (b"", CSV, 1, {"output": []}),
    ]
    for body, content_type, rows_, arrays in cases:
        found = read_outputs(body, content_type)
        read = {name: one.tolist() for name, one in found.arrays.items()}
        assert (found.rows, read) == (rows_, arrays)


def test_npy_is_known_by_its_first_bytes_too() -> None:
    for content_type in [NPY, "application/octet-stream", ""]:
        file = io.BytesIO()
        np.save(file, np.array([[1.0, 2.0]], np.float32))
        found = read_outputs(file.getvalue(), content_type)
        (array,) = found.arrays.values()
        assert (found.typed, found.rows, array.tolist()) == (True, 1, [[1.0, 2.0]])
