"""How answers are compared: forms, tolerances, labels, missing outputs, and the requests that differ most."""

import json
from typing import Any

import numpy as np
import pytest

from infra.parameters.replay import OutputTolerance, Replay
from servable.answers.outputs import read_outputs
from servable.replay.answers import AnswerPair
from servable.replay.compare.comparison import MOST_OUTPUTS, OTHER_OUTPUTS, Comparison
from servable.replay.compare.gate import check_limits, list_exceeded
from servable.replay.compare.output import build_json, format_lines
from servable.verdict import GateVerdict
from servable_tensors.codecs import CSV, JSON, JSON_LINES, NPY, PROTOBUF
from tests.servable.replay.pairs import comparison_of, gate, in_json, pair_of, recorded, written


def of_json(expected: object, answered: object, **settings: object) -> Comparison:
    """One pair of answers in JSON."""
    return comparison_of([in_json(0, expected, answered)], Replay(**settings))  # type: ignore[arg-type]


def of_text(expected: str, answered: str, content_type: str) -> Comparison:
    before, after = (recorded(body.encode(), content_type) for body in (expected, answered))
    return comparison_of([pair_of(0, before, after)])


def test_json_csv_and_lines_of_json_are_compared_by_path_and_row() -> None:
    before = {"labels": [{"label": "cat", "score": 0.9}, {"label": "dog", "score": 0.1}], "n": None}
    after = {"labels": [{"label": "cat", "score": 0.9}, {"label": "cow", "score": 0.1}], "n": None}
    found = of_json(before, after).outputs.values()
    assert [one.name for one in found if one.differing_rows] == ["labels[].label"]
    assert of_json({"predictions": [1, 2]}, {"predictions": [1.0, 2.0]}).differing_rows == 0

    for expected, answered, differing in [
        ("0.5,1\n0.25,2\n", "0.50000001,1\n0.25,2\n", 0),
        ("0.5,1\n0.25,2\n", "0.5,1\n0.26,2\n", 1),
        ("cat,0.5\ndog,0.5\n", "cat,0.5\ncow,0.5\n", 1),
        ("1\n2\n", "1\n2\n3\n", 2),
    ]:
        assert of_text(expected, answered, CSV).differing_rows == differing
    found = of_text('{"a": 1.0}\n{"a": 2.0}\n', '{"a": 1.0}\n{"a": 2.5}\n', JSON_LINES)
    assert (found.rows, found.differing_rows) == (2, 1)


@pytest.mark.parametrize("body", [b"", b"\xff\x00", b"{", b"[" * 100_000, b'{"a": 1}x'])
@pytest.mark.parametrize("content_type", [JSON, CSV, PROTOBUF, NPY, ""])
def test_no_body_is_too_damaged_to_be_read(body: bytes, content_type: str) -> None:
    assert read_outputs(body, content_type).rows >= 1


def test_another_shape_type_or_content_type_is_named() -> None:
    for answered, problem in (
        ([[1.0, 2.0, 3.0]], "shape [1, 2] became [1, 3]"),
        ([["1", "2"]], "type number became string"),
        ([[True, False]], "type number became truth value"),
    ):
        found = of_json({"predictions": [[1.0, 2.0]]}, {"predictions": answered})
        assert problem in found.outputs["output"].problems

    several = (written({"a": np.ones(2, kind)}, PROTOBUF) for kind in ("<f4", "<f8"))
    pair = pair_of(0, *(recorded(body, PROTOBUF) for body in several))
    assert "type float32 became float64 in 1 response" in gate([pair])
    pair = pair_of(0, recorded(b'{"predictions": [1.0]}'), recorded(b"1.0\n", CSV))
    assert "1 response came as text/csv instead of application/json." in gate([pair])


def test_the_tolerance_is_of_the_largest_number_of_the_row_and_infinities_are_counted() -> None:
    def compare(expected: object, answered: object, **settings: object) -> Comparison:
        return of_json({"predictions": expected}, {"predictions": answered}, **settings)

    absolute = {"outputs": {"output": OutputTolerance(absolute=0.1)}}
    cases: list[tuple[object, object, dict[str, Any], int]] = [
        ([[2.0, 0.0]], [[2.0, 2 * 0.99e-5]], {}, 0),
        ([[2.0, 0.0]], [[2.0, 2 * 1.01e-5]], {}, 1),
        ([[0.5, -1e9]], [[0.6, -1e9]], {}, 1),
        ([1.0, -1.0, 1e-6], [1.0, -1.0, 2e-6], {}, 0),
        ([[1.0, 1e6]], [[1.05, 1e6]], absolute, 0),
        ([[1.0, 1e6]], [[1.2, 1e6]], absolute, 1),
    ]
    for expected, answered, settings, differing in cases:
        assert compare(expected, answered, **settings).differing_rows == differing

    infinity = float("inf")
    found = compare([infinity, 1.0], [infinity, infinity])
    assert found.outputs["output"].infinite_rows == 1
    found = compare([[0.2, 0.5, 0.3]], [[0.2, 0.3, 0.5]], top=[1, 2])
    assert found.outputs["output"].changed_top == {1: 1, 2: 0}


def test_nothing_compared_does_not_pass_and_no_label_is_printed() -> None:
    found = of_json({"predictions": ["secret"]}, {"predictions": ["private"]})
    printed = json.dumps(build_json(found, Replay(), GateVerdict("met")))
    shown = "".join(format_lines(found))
    assert not [word for word in ("secret", "private") if word in printed + shown]

    nothing = comparison_of([pair_of(0, None, recorded(b"{}"))])
    verdict = check_limits(nothing, Replay())
    assert verdict.held == "cannot be told"
    assert "No response was compared" in verdict.lines[0]


ROWS = {"predictions": [[0.5, 0.25]] * 100}
BESIDE: dict[str, tuple[object, object]] = {
    "a label": (ROWS | {"label": "cat"}, ROWS | {"label": "dog"}),
    "a price": (ROWS | {"price": 10.0}, ROWS | {"price": 11.0}),
    "a key that is missing": (ROWS | {"label": "cat"}, ROWS),
    "a key that was added": (ROWS, ROWS | {"label": "cat"}),
    "an empty object that is missing": (ROWS | {"meta": {}}, ROWS),
    "null that became 0": (ROWS | {"price": None}, ROWS | {"price": 0}),
    "a nested value": (ROWS | {"a": {"b": [{"c": 1}]}}, ROWS | {"a": {"b": [{"c": 2}]}}),
    "a label for each row": (ROWS | {"labels": ["a"] * 100}, ROWS | {"labels": ["a"] * 99 + ["b"]}),
    "outputs": ({"outputs": [0.5], "label": "cat"}, {"outputs": [0.5], "label": "dog"}),
    "both forms": ({"outputs": [0.5]} | ROWS, {"outputs": [0.5], "predictions": [[0.5, 0.5]] * 100}),
    "an output whose name stands beside": (
        {"predictions": [{"label": "a"}], "label": "cat"},
        {"predictions": [{"label": "b"}], "label": "cat"},
    ),
    "the name of an output": (
        {"predictions": [{"label": "a"}], "label": "cat"},
        {"predictions": [{"label": "a"}], "label": "dog"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
def test_what_stands_beside_predictions_is_compared(name: str) -> None:
    assert gate([in_json(0, *BESIDE[name])]) != ""

    answer = recorded(json.dumps(BESIDE[name][0]).encode())
    again = recorded(json.dumps(BESIDE[name][0], indent=1).encode())
    assert gate([pair_of(0, answer, again)]) == ""


def test_keys_beside_predictions_leave_the_rows_and_the_only_outputs_name() -> None:
    after = {"predictions": [[0.5, 0.25]] * 99 + [[0.5, 0.5]], "label": "cat"}
    found = of_json(ROWS | {"label": "cat"}, after)
    assert (found.rows, found.differing_rows, found.outputs["label"].rows) == (100, 1, 1)
    assert of_json(ROWS | {"price": 1.0}, ROWS | {"price": 1.000001}).differing_rows == 0

    pair = in_json(0, *[ROWS | {"label": "cat"}] * 2)
    assert set(comparison_of([pair], only_output="prob").outputs) == {"prob", "label"}
    before, after = (recorded(b'{"outputs": [1], "a": %d, "a": 0}' % value) for value in (1, 2))
    assert "Output body" in gate([pair_of(0, before, after)])


def users(count: int, score: float, name: str = "user") -> dict[str, object]:
    return {"users": {f"{name}{number}@example.com": score for number in range(count)}}


def test_an_object_of_many_keys_is_a_table_and_names_that_are_data_are_bounded() -> None:
    found = of_json(users(300, 0.5), users(300, 0.6))
    counts = {name: one.differing_rows for name, one in found.outputs.items()}
    assert counts == {"users{key}": 0, "users{}": 1}
    found = of_json(users(300, 0.5), users(300, 0.5, "other"))
    assert found.outputs["users{key}"].differing_rows == 1
    assert of_json(users(300, 1.0), users(300, 1.000001)).differing_rows == 0
    body = {f"a{number}": {f"b{other}": 1 for other in range(200)} for number in range(50)}
    assert set(of_json(body, body).outputs) == {"body"}

    # Each of 1,000 answers has a key of its own, and all but the last 600 are the same.
    def pair_of_user(number: int) -> AnswerPair:
        scores = (0.5, 0.5 if number < 400 else 0.6)
        return in_json(number, *({"users": {f"alice{number}@x.com": each}} for each in scores))

    found = comparison_of(map(pair_of_user, range(1_000)))
    assert len(found.outputs) == MOST_OUTPUTS + 1
    assert found.outputs[OTHER_OUTPUTS].differing_rows == 600


@pytest.mark.long
def test_many_outputs_are_printed_in_few_short_lines_and_not_held_back() -> None:
    found = of_json(users(200, 0.5), users(200, 0.6))
    shown = format_lines(found)
    sentences = list_exceeded(found, Replay())
    assert (len(shown), len(sentences), max(map(len, shown)) < 3_000) == (24, 21, True)

    comparison = Comparison(Replay())
    for number in range(4):
        answer = {"outputs": {f"a{name}": [0.5 + number] for name in range(4_000)}}
        comparison.add(in_json(number, answer, answer))
    assert comparison.compared > 0
    for name in ["a\ngate: met", "\x1b[2J", "\ud800", "a" * 10_000, "\u2028"]:
        found = of_json(*({"outputs": {name: [value], "b": [1.0]}} for value in (1.0, 2.0)))
        (output,) = (one.name for one in found.outputs.values() if one.differing_rows)
        assert output.encode().isascii()
        assert (output.isprintable(), len(output) <= 200) == (True, True)


# --- outputs that the file leaves out


def test_an_ignored_output_does_not_differ_and_is_named_as_not_compared() -> None:
    def ignoring(*names: str) -> Comparison:
        outputs = {name: OutputTolerance(ignored=True) for name in names}
        return of_json(*({"outputs": [0.5], "id": each} for each in "ab"), outputs=outputs)

    assert list_exceeded(ignoring("id"), Replay()) == []
    assert len(list_exceeded(ignoring("output"), Replay())) == 1
    assert format_lines(ignoring("id"))[2].endswith(": id")
    verdict = check_limits(ignoring("id", "output"), Replay())
    assert (verdict.held, len(verdict.lines)) == ("cannot be told", 1)
