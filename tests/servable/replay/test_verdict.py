"""The gate is met only if enough was compared; it finds planted changes, and lets harmless ones pass."""

import dataclasses
import json
from collections.abc import Iterable

import numpy as np
import pytest

from infra.parameters.replay import OutputTolerance, Replay
from servable.captured.lines import RecordedAnswer
from servable.replay.answers import AnswerPair
from servable.replay.compare.gate import (
    check_limits,
    compute_largest_share,
    compute_least_rows,
    format_confidence,
)
from servable.replay.compare.output import build_json, list_ignored, list_unseen
from servable.replay.places import SkipCount
from servable.verdict import GateVerdict
from servable_tensors.codecs import JSON, PROTOBUF
from tests.servable.replay.pairs import (
    CLASS_NAMES,
    DEFAULTS,
    KERNEL,
    Answer,
    Change,
    comparison_of,
    gate,
    inputs_of,
    model,
    pair_of,
    pairs,
    recorded,
    written,
)

ROWS = 100


def answer(values: object, **beside: object) -> RecordedAnswer:
    return recorded(json.dumps({"outputs": {"scores": values}} | beside).encode())


SCORES = np.linspace(0.1, 0.9, ROWS).tolist()
SAME = answer(SCORES)


def alike(count: int, rows: int = ROWS) -> list[AnswerPair]:
    expected = answer(SCORES[:rows])
    return [pair_of(number, expected, expected) for number in range(count)]


def verdict(
    pairs: Iterable[AnswerPair], limits: Replay = DEFAULTS, read: int = 30, *skipped: SkipCount
) -> GateVerdict:
    return check_limits(comparison_of(pairs, limits), limits, read, skipped)


def skip(lines: int, file: str = "captured/a.jsonl") -> SkipCount:
    return SkipCount(file, "it is not JSON", lines, 1)


def test_rows_and_shares_follow_from_a_poisson_count() -> None:
    for share, rows in [(1e-4, 30_000), (1e-3, 3_000), (0.015, 200), (1, 3)]:
        assert compute_least_rows(Replay(detectable_share=share)) == rows
    # 95 % limits of a Poisson count, from a table of chi-square (Pearson and Hartley, table 8): half of the
    # 95 % quantile of 2 k + 2 degrees of freedom.
    for differing, limit in [(0, 3.0), (1, 4.744), (4, 9.154), (14, 21.886)]:
        assert compute_largest_share(differing, 10_000) == pytest.approx(limit / 10_000, rel=0.01)


def test_enough_rows_of_enough_requests_are_met_and_fewer_cannot_be_told() -> None:
    assert verdict(alike(30)).held == "met"
    line = "0 of 3,000 rows show that fewer than 0.1 % of all rows differ, with 95 % confidence"
    assert format_confidence(comparison_of(alike(30))) == line

    found = verdict([*alike(29), *alike(1, rows=99)])
    assert (found.held, found.verdict) == ("cannot be told", "cannot be told")
    assert "which needs 3,000 rows" in found.lines[0]
    assert "detectable_share = 0.0011." in found.lines[0]

    failed = dataclasses.replace(SAME, status=500)
    found = verdict(pair_of(number, SAME, failed) for number in range(30))
    assert "0 rows of 0 responses cannot show" in found.lines[1]

    few = Replay(detectable_share=0.05)
    assert verdict(alike(1), few).held == "cannot be told"
    assert verdict(alike(10, rows=10), few).held == "met"


def test_skipped_lines_and_a_share_near_to_its_limit_cannot_be_told() -> None:
    found = verdict(alike(30), DEFAULTS, 31, skip(5), skip(3))
    assert found.held == "cannot be told"
    assert "8 of 31 captured lines were skipped" in found.lines[0]
    assert verdict(alike(30), DEFAULTS, 100, skip(1)).held == "met"
    (line,) = verdict(alike(30), DEFAULTS, 30, skip(0), skip(0, "notes.txt")).lines
    assert "captured/a.jsonl was not read" in line

    found = verdict([*alike(30), *(pair_of(number, None, SAME) for number in range(30, 33))])
    assert "3 of 33 requests have no captured response" in found.lines[0]

    changed = pair_of(30, SAME, answer([*SCORES[:-1], 0.5]))
    assert verdict([changed]).held == "NOT met"

    changed = pair_of(29, SAME, answer([*SCORES[:-27], *np.linspace(0.2, 0.3, 27).tolist()]))
    found = verdict([*alike(29), changed], Replay(differing_rows_share=0.01))
    assert "up to 1.24 % of all may" in found.lines[0]


# --- what is not compared, and what is not seen
def test_added_outputs_are_allowed_and_columns_that_are_not_seen_named() -> None:
    more = answer(SCORES, explanation="x")
    pairs_ = [pair_of(number, SAME, more) for number in range(30)]
    allowed = "not compared, allowed by [replay] added_outputs: explanation in 30"
    for added, held, ignored in [(False, "NOT met", []), (True, "met", [allowed])]:
        limits = Replay(added_outputs=added)
        assert verdict(pairs_, limits).held == held
        assert list_ignored(comparison_of(pairs_, limits)) == ignored

    (line,) = columns()
    assert line.startswith("scores: a change of 1 % in column 2 of 4 is within the tolerance")
    assert columns(lengths=(4, 2, 4)) == []
    assert columns(relative=1e-9) == columns(absolute=1e-4) == []


def columns(
    relative: float | None = None, absolute: float | None = None, lengths: tuple[int, ...] = (4, 4)
) -> list[str]:
    """Lines of an output with a column far below the others of its rows."""
    tolerance = OutputTolerance(relative=relative, absolute=absolute)
    several = [answer([[1e6, 0.5, 0.0, 2e4][:length]] * ROWS) for length in lengths]
    limits = Replay(outputs={"scores": tolerance})
    comparison = comparison_of((pair_of(0, one, one) for one in several), limits)
    lines = list_unseen(comparison)
    stored = build_json(comparison, limits, None)["outputs"]["scores"]["unseen_columns"]
    assert stored == [2] * len(lines)
    return lines


def other_kernel(kernel: np.ndarray) -> Change:
    return lambda number, before: model(inputs_of(number), kernel)


def swapped(number: int, before: Answer) -> Answer:
    return {**before, "scores": before["logits"], "logits": before["scores"]}


def shifted_labels(number: int, before: Answer) -> Answer:
    best = (before["best"] + 1) % len(CLASS_NAMES)
    return {**before, "best": best, "name": CLASS_NAMES[best]}


def other_preprocessing(number: int, before: Answer) -> Answer:
    return model(inputs_of(number) / np.float32(127.5) * np.float32(127.0))


HALVED = KERNEL.astype(np.float16).astype(np.float32)
HARMFUL: dict[str, tuple[Change, str]] = {
    "weights changed by 1 %": (other_kernel(KERNEL * np.float32(1.01)), "Output scores:"),
    "another version": (other_kernel(KERNEL[:, ::-1].copy()), "Output scores:"),
    "outputs swapped": (swapped, "Output scores: 80 of 80 rows differ (100 %; at most 0 %)"),
    "a class label shift": (shifted_labels, "80 labels changed"),
    "float16 weights": (other_kernel(HALVED), "Output scores:"),
    "a preprocessing constant": (other_preprocessing, "Output logits: 80 of 80 rows differ"),
    # The default of an input added a bias, as of a feature that callers leave out.
    "a dropped input default": (
        lambda number, before: model(inputs_of(number), bias=0.2),
        "Output logits: 80 of 80 rows differ",
    ),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_the_gate_finds_a_harmful_change_and_names_the_output(name: str) -> None:
    change, sentence = HARMFUL[name]
    for form in (JSON, PROTOBUF):
        assert sentence in gate(pairs(change, content_type=form))


def last_digit(number: int, before: Answer) -> Answer:
    """Every float is the next one."""
    return {
        name: np.nextafter(array, np.float32(np.inf)) if array.dtype.kind == "f" else array
        for name, array in before.items()
    }


def other_threads(number: int, before: Answer) -> Answer:
    """The sums are made in another order."""
    order = np.random.default_rng(number).permutation(8)
    return model(inputs_of(number)[:, order], KERNEL[order])


def other_patch(number: int, before: Answer) -> Answer:
    """Another release's kernels compute in double precision and round at the end."""
    after = model(inputs_of(number).astype(np.float64), KERNEL.astype(np.float64))
    return {**after, "offset": before["offset"]}


def one_by_one(number: int, before: Answer) -> Answer:
    """Rows are computed alone, or in the batch of others."""
    several = [model(row[None]) for row in inputs_of(number)]
    return {name: np.concatenate([one[name] for one in several]) for name in before}


HARMLESS: dict[str, Change] = {
    "nothing": lambda number, before: before,
    "another last digit": last_digit,
    "another order of outputs": lambda number, before: dict(reversed([*before.items()])),
    "batching on": one_by_one,
    "other threads": other_threads,
    "another TensorFlow patch": other_patch,
}


@pytest.mark.parametrize("name", HARMLESS)
def test_the_gate_lets_a_harmless_change_pass(name: str) -> None:
    def change(number: int, before: Answer) -> Answer:
        after = HARMLESS[name](number, before)
        return {key: after[key].astype(before[key].dtype) for key in after}

    for form in (JSON, PROTOBUF):
        assert gate(pairs(change, content_type=form)) == ""


def test_other_formats_of_the_same_answers_and_expected_errors_pass() -> None:
    def reformat(number: int) -> AnswerPair:
        expected = written(model(inputs_of(number)))
        other = json.dumps(json.loads(expected), indent=1, sort_keys=True).encode()
        again = recorded(other, "application/json; charset=utf-8")
        return pair_of(number, recorded(expected), again)

    def transpose(number: int) -> AnswerPair:
        """Answer columns in the place of rows."""
        before = model(inputs_of(number))
        columns = {name: array.tolist() for name, array in before.items() if name != "name"}
        rows = {name: before[name] for name in columns}
        answered = recorded(json.dumps({"outputs": columns}).encode())
        return pair_of(number, recorded(written(rows)), answered)

    assert gate(map(reformat, range(10))) == gate(map(transpose, range(10))) == ""
    refused = recorded(b'{"error": "no"}', status=400)
    good = pairs(HARMLESS["nothing"], count=4)
    assert gate([pair_of(0, refused, refused), *good]) == ""


def test_nan_on_one_row_in_ten_thousand_is_found() -> None:
    before = model(np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32))
    logits = before["logits"].copy()
    logits[2, 3] = np.nan
    expected, damaged = (
        recorded(written(answer, PROTOBUF), PROTOBUF)
        for answer in (before, {**before, "logits": logits})
    )
    answers = [expected] * 57 + [damaged] + [expected] * 42
    found = gate(pair_of(number, expected, each) for number, each in enumerate(answers))
    assert "Output logits: 1 of 10,000 rows differ (0.01 %; at most 0 %)" in found
    assert "NaN on one side in 1 row" in found
