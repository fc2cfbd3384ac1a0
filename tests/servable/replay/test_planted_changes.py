"""Ten changes that the gate must find and name by output, and ten that it must let pass."""

import json

import numpy as np
import pytest

from servable.replay.answers import AnswerPair
from servable_tensors.codecs import JSON, PROTOBUF
from tests.servable.replay.pairs import (
    CLASS_NAMES,
    KERNEL,
    Answer,
    Change,
    gate,
    inputs_of,
    model,
    pair_of,
    pairs,
    recorded,
    written,
)


def other_kernel(kernel: np.ndarray) -> Change:
    return lambda number, before: model(inputs_of(number), kernel)


def swapped(number: int, before: Answer) -> Answer:
    return {**before, "scores": before["logits"], "logits": before["scores"]}


def shifted_labels(number: int, before: Answer) -> Answer:
    best = (before["best"] + 1) % len(CLASS_NAMES)
    return {**before, "best": best, "name": CLASS_NAMES[best]}


def other_preprocessing(number: int, before: Answer) -> Answer:
    return model(inputs_of(number) / np.float32(127.5) * np.float32(127.0))


def without_default(number: int, before: Answer) -> Answer:
    """The default of an input added a bias, as of a feature that callers leave out."""
    return model(inputs_of(number), bias=0.2)


HALVED = KERNEL.astype(np.float16).astype(np.float32)
HARMFUL: dict[str, tuple[Change, str]] = {
    "weights changed by 1 %": (other_kernel(KERNEL * np.float32(1.01)), "Output scores:"),
    "another version": (other_kernel(KERNEL[:, ::-1].copy()), "Output scores:"),
    "outputs swapped": (swapped, "Output scores: 80 of 80 rows differ (100 %; at most 0 %)"),
    "a class label shift": (shifted_labels, "80 labels changed"),
    "float16 weights": (other_kernel(HALVED), "Output scores:"),
    "a preprocessing constant": (other_preprocessing, "Output logits: 80 of 80 rows differ"),
    "a dropped input default": (without_default, "Output logits: 80 of 80 rows differ"),
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


def reordered(number: int, before: Answer) -> Answer:
    return dict(reversed(list(before.items())))


HARMLESS: dict[str, Change] = {
    "nothing": lambda number, before: before,
    "another last digit": last_digit,
    "another order of outputs": reordered,
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


def reformatted(number: int, before: Answer) -> AnswerPair:
    expected = written(before)
    other = json.dumps(json.loads(expected), indent=1, sort_keys=True).encode()
    return pair_of(number, recorded(expected), recorded(other, "application/json; charset=utf-8"))


def test_other_formats_of_the_same_answers_and_expected_errors_pass() -> None:
    assert gate(reformatted(number, model(inputs_of(number))) for number in range(10)) == ""

    def pair(number: int) -> AnswerPair:
        if number:
            return next(pairs(HARMLESS["nothing"], count=1))
        refused = recorded(b'{"error": "no"}', status=400)
        return pair_of(number, refused, refused)

    assert gate(pair(number) for number in range(5)) == ""


def test_columns_in_the_place_of_rows_pass() -> None:
    def pair(number: int) -> AnswerPair:
        before = model(inputs_of(number))
        columns = {name: array.tolist() for name, array in before.items() if name != "name"}
        rows = {name: before[name] for name in columns}
        answered = recorded(json.dumps({"outputs": columns}).encode())
        return pair_of(number, recorded(written(rows)), answered)

    assert gate(pair(number) for number in range(10)) == ""


def test_nan_on_one_row_in_ten_thousand_is_found() -> None:
    before = model(np.random.default_rng(0).normal(size=(100, 8)).astype(np.float32))
    logits = before["logits"].copy()
    logits[2, 3] = np.nan
    body, damaged = (written(answer, PROTOBUF) for answer in (before, {**before, "logits": logits}))
    expected = recorded(body, PROTOBUF)
    several = (
        pair_of(number, expected, recorded(damaged, PROTOBUF) if number == 57 else expected)
        for number in range(100)
    )
    found = gate(several)
    assert "Output logits: 1 of 10,000 rows differ (0.01 %; at most 0 %)" in found
    assert "NaN on one side in 1 row" in found
