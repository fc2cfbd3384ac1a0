"""A batch in parts is the batch; the number of parts is found by measuring."""

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from servable_client import (
    BadAnswerError,
    BadInputError,
    BodyTooLargeError,
    FakeEndpoint,
    ModelFailedError,
    PartFailedError,
    Progress,
    Split,
)
from servable_client.errors import PredictionError
from servable_client.split import ASK_AGAIN_EVERY, MEASUREMENTS, PartSizes, as_split, cut_into_parts
from tests.servable_client.array_strategies import quick

OF_BYTES = st.builds(lambda n: Split(bytes=n), st.integers(1, 2000))
SPLITS = st.one_of(st.integers(1, 40), OF_BYTES, st.just("measured"))


def model(ids: Any, vals: Any, words: Any, bias: Any) -> dict[str, Any]:
    lengths = np.array([sum(map(len, row)) for row in words], np.int64)
    score = (vals * bias).sum(axis=1) + ids[:, 0]
    return {"score": score, "words": words[:, :1], "lengths": lengths, "version": np.int64(7)}


fake = FakeEndpoint(model)


def batch(rows: int) -> dict[str, Any]:
    words = np.empty((rows, 2), object)
    words[:] = [[b"w" * (n % 7), b""] for n in range(rows)] or words
    ids = np.arange(rows * 3).reshape(rows, 3)
    vals = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    return {"ids": ids, "vals": vals, "words": words, "bias": np.float32(0.5)}


@pytest.mark.long
@quick
@given(st.integers(0, 60), SPLITS)
def test_split_and_whole_give_the_same(rows: int, split: Any) -> None:
    whole, found = fake.predict(batch(rows)), fake.predict(batch(rows), split=split)
    assert whole.keys() == found.keys()
    for name, array in whole.items():
        np.testing.assert_array_equal(found[name], array)
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)


@quick
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=50), st.integers(1, 100))
def test_a_part_has_at_most_the_bytes_asked_for_or_one_row(rows: list[bytes], most: int) -> None:
    array = np.empty(len(rows), object)
    array[:] = rows
    made = cut_into_parts({"x": array}, Split(bytes=most))
    assert all(sum(map(len, p.arrays["x"])) <= most or len(p.rows) == 1 for p in made)


@quick
@given(st.integers(1, 200), st.integers(1, 300))
def test_parts_by_bytes_are_as_few_as_can_be(rows: int, most: int) -> None:
    """Where `constant` is given; else there may be one more, so that not all have one length."""
    made = cut_into_parts({"x": np.zeros(rows, np.int32)}, Split(bytes=most, constant=frozenset()))
    assert len(made) == -(-rows // max(most // 4, 1))


def test_answers_are_in_order_though_later_parts_come_first() -> None:
    last = threading.Event()

    def slow_start(x: Any) -> Any:
        if x[0] == 0:
            last.wait(20)
        if x[0] == 8:
            last.set()
        return {"y": x}

    found = FakeEndpoint(slow_start).predict(x=np.arange(10), split=2)["y"]
    assert found.tolist() == list(range(10))


def failing(x: Any) -> Any:
    if 6 in x:
        raise ModelFailedError("the container returns 500: no", status=500)
    return {"y": x}


def test_after_a_part_that_fails_no_other_is_sent_and_its_error_is_named() -> None:
    with pytest.raises(
        PartFailedError, match=r"part 4 of 6 \(rows 6 to 7\): the container returns 500"
    ):
        FakeEndpoint(failing, connections=1).predict(x=np.arange(10), split=2)
    with pytest.raises(PartFailedError) as caught:
        FakeEndpoint(failing).predict(x=np.arange(10), split=2)
    assert isinstance(caught.value.failure, ModelFailedError)
    with pytest.raises(PartFailedError) as caught:
        FakeEndpoint(lambda x: {}).predict(x=np.zeros((2, 7_000_000), np.uint8), split=1)
    assert isinstance(caught.value.failure, BodyTooLargeError)

    fake = FakeEndpoint(failing, connections=1)
    with pytest.raises(PartFailedError):
        fake.predict(x=np.arange(6, 2000), split=1)
    assert len(fake.calls) == 1


def test_a_batch_whose_endpoint_another_thread_closes_ends_and_sends_no_further_part() -> None:
    sent, closing = threading.Event(), threading.Event()

    def slow(x: Any) -> dict[str, Any]:
        sent.set()
        closing.wait(20)
        return {"y": x}

    with ThreadPoolExecutor(2) as pool, FakeEndpoint(slow, connections=1) as fake:
        batch = pool.submit(fake.predict, x=np.arange(6), split=2)
        sent.wait(20)
        pool.submit(fake.close)
        while not fake.closed:
            time.sleep(0.001)
        closing.set()
        with pytest.raises(PartFailedError, match=r"part 2 of 4 .*is closed; create a new one"):
            batch.result(20)
    assert len(fake.calls) == 1


def test_a_batch_of_one_part_stays_on_its_callers_thread() -> None:
    threads = []

    def noting(x: Any) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {"y": x}

    FakeEndpoint(noting).predict(x=np.arange(4), split=4)
    assert threads == [threading.get_ident()]


def test_what_is_not_cut_goes_into_every_part() -> None:
    endpoint = FakeEndpoint(lambda x, table: {"y": x + table.sum()})
    split = Split(rows=2, whole=frozenset({"table"}))
    found = endpoint.predict(x=np.arange(4), table=np.ones(3, np.int64), split=split)["y"]
    assert found.tolist() == [3, 4, 5, 6]


def test_progress_is_told_after_each_part_and_may_end_the_batch() -> None:
    told: list[Progress] = []
    fake.predict(batch(10), split=4, progress=told.append)
    shown = [(one.parts_done, one.parts, one.rows) for one in told]
    assert shown == [(1, 3, 10), (2, 3, 10), (3, 3, 10)]
    assert told[-1].rows_done == 10

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fake.predict(batch(10), split=2, progress=stop)


@pytest.mark.parametrize(("arrays", "split", "words"), [
    ({"a": np.zeros(3), "b": np.zeros(4)}, 2, "a 3, b 4"),
    ({"a": np.float32(1)}, 2, "no input has rows"),
    ({"a": np.zeros(3)}, Split(rows=1, whole=frozenset({"z"})), "z: not an input"),
])  # fmt: skip
def test_what_cannot_be_cut_is_refused(arrays: Any, split: Any, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        FakeEndpoint(lambda **_: {}).predict(arrays, split=split)


def test_a_split_that_is_none_is_refused() -> None:
    cases: list[Any] = [0, -1, True, 2.0, "auto"]
    for split in cases:
        with pytest.raises(BadInputError):
            as_split(split)


@pytest.mark.parametrize("output", [
    lambda x: {"mean": x.mean()},
    lambda x: {"best": np.sort(x)[:1]},
    lambda x: {"y": x, f"only{x[0]}": x},
    lambda x: {"y": np.zeros((len(x), x[0]))},
], ids=["a mean", "the best", "other outputs", "other shapes"])  # fmt: skip
def test_an_output_of_the_whole_batch_is_not_made_up_from_parts(output: Any) -> None:
    with pytest.raises(BadAnswerError):
        FakeEndpoint(output).predict(x=np.arange(4), split=2)


def test_a_deadline_given_holds_for_all_parts() -> None:
    with pytest.raises(PredictionError):
        fake.predict(batch(2000), split=1, timeout_seconds=0.001)


LABELS = np.array([b"cat", b"dog", b"cow"], object)


def labelled(x: Any) -> dict[str, Any]:
    """As a classifier answers: a row for each row, and three labels for all."""
    return {"score": x * 2, "labels": LABELS}


@quick
@given(st.integers(1, 40), st.integers(2, 12) | st.just("measured"), st.booleans())
def test_a_constant_as_long_as_a_part_is_no_rows(rows: int, split: Any, same: bool) -> None:
    x = np.zeros(rows) if same else np.arange(float(rows))
    found = FakeEndpoint(labelled, connections=3).predict(x=x, split=split)
    assert found["labels"].tolist() == LABELS.tolist()
    np.testing.assert_array_equal(found["score"], x * 2)


@quick
@given(st.integers(1, 300), st.integers(2, 40), st.booleans())
def test_parts_of_two_rows_or_more_are_not_all_alike(rows: int, size: int, by_bytes: bool) -> None:
    split = Split(bytes=size) if by_bytes else Split(rows=size)
    parts = cut_into_parts({"x": np.arange(rows, dtype=np.uint16).astype(np.uint8)}, split)
    values = [int(one) for part in parts for one in part.arrays["x"]]
    assert values == [n % 256 for n in range(rows)]
    made = [len(part.rows) for part in parts]
    assert len(made) == 1 or len(set(made)) > 1
    assert max(made) <= size
    assert len(made) <= -(-rows // size) + 1


@quick
@given(st.integers(1, 300), st.integers(1, 40))
def test_measured_parts_are_never_all_of_one_length(rows: int, measured: int) -> None:
    parts = cut_into_parts({"x": np.zeros(rows)}, Split(), measured_rows=measured)
    made = [len(part.rows) for part in parts]
    assert len(made) == 1 or len(set(made)) > 1
    assert sum(made) == rows
    assert max(made) <= measured + 1


def test_which_outputs_are_one_for_all_parts_is_seen_or_can_be_said() -> None:
    found = FakeEndpoint(lambda x: {"y": x}).predict(x=np.arange(3.0), split=1)
    assert found["y"].tolist() == [0, 1, 2]
    with pytest.raises(BadAnswerError, match=r'Split\(rows=1, constant=frozenset\(\{"y"\}\)\)'):
        FakeEndpoint(lambda x: {"y": x * 0}).predict(x=np.arange(3.0), split=1)
    cases: list[tuple[set[str], list[float]]] = [({"y"}, [0]), (set(), [0, 0, 0])]
    for constant, wanted in cases:
        split = Split(rows=1, constant=frozenset(constant))
        found = FakeEndpoint(lambda x: {"y": x * 0}).predict(x=np.arange(3.0), split=split)
        assert found["y"].tolist() == wanted

    split = Split(rows=1, constant=frozenset({"label"}))
    with pytest.raises(BadAnswerError, match="names label; the model's outputs are labels, score"):
        FakeEndpoint(labelled).predict(x=np.arange(3.0), split=split)
    split = Split(rows=2, constant=frozenset({"score"}))
    with pytest.raises(BadAnswerError, match="is not the same in every part"):
        FakeEndpoint(labelled).predict(x=np.arange(6.0), split=split)


def test_all_parts_of_a_batch_have_one_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last would be small enough for JSON, of which other types come back."""
    fake = FakeEndpoint(lambda a, b: {"y": a * b.astype(np.float32)})
    fake.predict({"a": np.ones(5001, np.float32), "b": np.ones(5001, np.int64)}, split=5000)
    assert {call["a"].dtype for call in fake.calls} == {np.dtype(np.float32)}


ROWS = 500
CONNECTIONS = 10
LEARNING = MEASUREMENTS * 6  # 1, 2, 4, 8, 10 and 20 parts

Seconds = Callable[[int], float]


def asked(sizes: PartSizes, batches: int, seconds: Seconds, rows: int = ROWS) -> list[int]:
    """The numbers of parts of so many batches."""
    counts = []
    for _ in range(batches):
        counts.append(sizes.choose_part_count(rows))
        sizes.record(rows, counts[-1], seconds(counts[-1]))
    return counts


def after(batches: int, seconds: Seconds, connections: int = CONNECTIONS) -> PartSizes:
    sizes = PartSizes(connections)
    asked(sizes, batches, seconds)
    return sizes


def on_cores(cores: int, overhead: float) -> Seconds:
    """Seconds of a batch whose parts are computed by so many cores, as many at a time as connections."""

    def seconds(parts: int) -> float:
        rounds = -(-parts // min(cores, CONNECTIONS))
        return rounds * (overhead + -(-ROWS // parts) / ROWS)

    return seconds


def test_the_fastest_number_of_parts_is_found_and_small_batches_are_not_split() -> None:
    for cores, overhead, best in [(1, 0.01, 1), (4, 0.01, 4), (8, 0.001, 8), (16, 0.001, 10)]:
        assert after(LEARNING, on_cores(cores, overhead)).choose_part_count(ROWS) == best
    assert PartSizes(CONNECTIONS).choose_part_count(ROWS) == 1
    assert after(LEARNING, lambda parts: 1.0 if parts == 1 else 0.985).choose_part_count(ROWS) == 1
    assert after(LEARNING, on_cores(8, 0.001)).choose_part_count(4) == 1


@example(
    cores=2, overhead=0.515625, hiccups=[0] * 6, times=1.0,
    jitter=[1.0] * (LEARNING - 3) + [1.0078125] * 3,
)  # fmt: skip
@given(
    cores=st.integers(1, 40),
    overhead=st.floats(0, 2),
    hiccups=st.lists(st.integers(0, MEASUREMENTS - 1), min_size=6, max_size=6),
    times=st.floats(1, 10),
    jitter=st.lists(st.floats(0.99, 1.01), min_size=LEARNING, max_size=LEARNING),
)
def test_after_learning_the_choice_is_as_fast_as_whole_and_as_a_part_for_each_connection(
    cores: int, overhead: float, hiccups: list[int], times: float, jitter: list[float]
) -> None:
    """Within 5 %, though each number of parts has one slow moment and all of them scatter by 1 %."""
    true, seen, noise = (
        on_cores(cores, overhead), dict.fromkeys((1, 2, 4, 8, 10, 20), 0), itertools.cycle(jitter),
    )  # fmt: skip

    def measured(parts: int) -> float:
        slow = times if seen[parts] == hiccups[list(seen).index(parts)] else 1
        seen[parts] += 1
        return true(parts) * slow * next(noise)

    # A number at the border of what is worth trying may be measured for the first time only now.
    choices = asked(after(LEARNING, measured), 3 * MEASUREMENTS, measured)
    assert true(max(choices, key=choices.count)) <= 1.05 * min(true(1), true(CONNECTIONS))


@pytest.mark.long
@given(
    cores=st.integers(1, 40),
    overhead=st.floats(0, 2),
    batches=st.integers(10 * ASK_AGAIN_EVERY, 40 * ASK_AGAIN_EVERY),
)
def test_measuring_neighbours_again_costs_at_most_five_percent_of_the_time(
    cores: int, overhead: float, batches: int
) -> None:
    seconds = on_cores(cores, overhead)
    counts = asked(after(LEARNING, seconds), batches, seconds)
    best = min(map(seconds, counts))
    assert sum(map(seconds, counts)) <= 1.05 * best * batches


@pytest.mark.long
@given(rows=st.integers(1, 60), connections=st.integers(1, 40))
def test_learning_ends_for_any_number_of_rows_and_connections(rows: int, connections: int) -> None:
    sizes = PartSizes(connections)
    asked(sizes, MEASUREMENTS * 8, lambda parts: 1 / parts, rows)
    counts = asked(sizes, 10 * ASK_AGAIN_EVERY, lambda parts: 1 / parts, rows)
    assert max(map(counts.count, counts)) >= 0.95 * len(counts)


@given(rows=st.integers(0, 60), connections=st.integers(1, 40), batches=st.integers(0, 40))
def test_there_are_never_more_parts_than_rows_or_than_two_for_each_connection(
    rows: int, connections: int, batches: int
) -> None:
    counts = asked(PartSizes(connections), batches, lambda parts: 1 / parts, rows)
    assert all(1 <= count <= max(1, min(rows, 2 * connections)) for count in counts)


def test_numbers_of_parts_are_measured_in_turn_and_follow_the_endpoint() -> None:
    assert asked(PartSizes(4), 8, lambda parts: 1 / parts) == [1, 2, 4, 8, 1, 2, 4, 8]
    assert set(asked(PartSizes(CONNECTIONS), LEARNING, lambda parts: parts)) == {1, 2}
    sizes = after(LEARNING, on_cores(8, 0.001))
    asked(sizes, 400, on_cores(1, 0.05))
    assert sizes.choose_part_count(ROWS) < 8
    sizes = after(LEARNING, on_cores(1, 0.2))
    asked(sizes, 1000, on_cores(8, 0.001))
    assert sizes.choose_part_count(ROWS) > 1
