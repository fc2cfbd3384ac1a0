"""No value changes silently between what a caller gives and the answer's arrays."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_client import BadAnswerError, BadInputError, FakeEndpoint
from servable_client.batches import merge_outputs
from servable_client.formats import as_arrays, decode
from tests.servable_client.array_strategies import quick

FORMS = ["protobuf", "npz", "json"]
echo = FakeEndpoint(lambda **inputs: inputs)
INTEGERS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=5),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=5),
)


@quick
@given(INTEGERS, st.sampled_from(FORMS))
def test_integers_of_64_bits_in_lists_stay_exact(values: list[int], form: Any) -> None:
    assert echo.predict(x=values, format=form)["x"].tolist() == values


@pytest.mark.parametrize("body", [
    b'{"outputs": [9007199254740993, 0.5]}',
    b'{"outputs": [18446744073709551616]}',
    b'{"outputs": [18446744073709551615, -1]}',
    b'{"outputs": [1e400]}',
    b'{"outputs": [-' + b"9" * 320 + b'.0]}',
    b'{"outputs": {"y": [1], "y": [2]}}',
    b'{"outputs": [true, 2]}',
    b'{"outputs": ["\\ud800"]}',
    b'{"outputs": ["\\udc80"]}',
    b'{"outputs": [{"b64": "YQ==", "b65": "Yg=="}]}',
    b'{"outputs": [1, [2]]}',
])  # fmt: skip
def test_json_whose_values_no_array_holds_is_a_bad_answer(body: bytes) -> None:
    with pytest.raises(BadAnswerError):
        decode("application/json", body)


@pytest.mark.parametrize("values", [
    [2**53 + 1, 0.5],
    [np.int64(2**53 + 1), np.float64(0.5)],
    [np.array([2**53 + 1]), np.array([0.5])],
    [2**63, -1],
    [2**64],
    [True, 2],
    [[True], [0.5]],
    [1, "a"],
    ["a", None],
    [Decimal("1.5")],
    np.ma.masked_array([1.0, 2.0], [False, True]),
    [np.ma.masked, 1.0],
    [np.ma.masked_array([1.0], [True])],
    "half \ud800",
    ["\udc80"],
    np.array(["\ud800"]),
    np.zeros(2, np.longdouble),
    np.zeros(2, "V2"),
    np.zeros(2, "M8[s]"),
    np.zeros(2, [("a", "f4")]),
    np.array([1, "a"], object),
], ids=repr)  # fmt: skip
def test_what_would_change_is_refused_unsent(values: Any) -> None:
    for form in [*FORMS, None]:
        before = len(echo.calls)
        with pytest.raises(BadInputError):
            echo.predict(x=values, format=form)
        assert len(echo.calls) == before


def test_what_no_tensor_holds_is_refused_with_what_to_do() -> None:
    with pytest.raises(BadInputError, match=r"x: holds a masked array.*pass x.filled"):
        echo.predict(x=np.ma.masked_array([1.0], [False]))
    with pytest.raises(BadInputError, match="half of a surrogate pair"):
        echo.predict(x="\ud800")
    cases: list[Any] = ["\ud800", 1, b"x"]
    for name in cases:
        with pytest.raises(BadInputError):
            echo.predict({name: [1.0]})


def test_a_shape_without_values_arrives_or_is_refused() -> None:
    for form in FORMS:
        for shape in [(0, 3), (3, 0, 2)]:
            if form == "json":
                with pytest.raises(BadInputError, match="JSON can't keep the shape"):
                    echo.predict(x=np.zeros(shape), format=form)
            else:
                assert echo.predict(x=np.zeros(shape), format=form)["x"].shape == shape


def test_zeros_scalars_and_what_is_no_number_arrive() -> None:
    cases: list[Any] = ["protobuf", "json"]
    for form in cases:
        assert echo.predict(x=["a\0", "b"], format=form)["x"].tolist() == [b"a\0", b"b"]
    for form in FORMS:
        found = echo.predict(x=[np.nan, np.inf, -np.inf, -0.0], format=form)["x"]
        np.testing.assert_array_equal(found, [np.nan, np.inf, -np.inf, -0.0])
        assert np.signbit(found[3])
    for form in FORMS:
        assert echo.predict(x=np.float64(0.1), format=form)["x"].tolist() == 0.1


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1, 2.5], "f8"), (range(3), "i8"), ([np.float32(1), np.float32(2)], "f4"), ([True], "?"),
     ([np.arange(2), np.arange(2)], "i8"), ((1, 2), "i8"), ([1, 1j], "c16"), ([], "f8")],
)  # fmt: skip
def test_lists_become_the_arrays_that_numpy_makes_of_them(values: Any, dtype: str) -> None:
    found = as_arrays(None, {"x": values})["x"]
    np.testing.assert_array_equal(found, np.asarray(values))
    assert found.dtype == dtype


def test_what_no_header_carries_is_refused() -> None:
    for option in ["inference_id", "variant", "target_model"]:
        for text in ["a\r\nb", "\ud800", "☃"]:
            with pytest.raises(BadInputError, match="header"):
                echo.predict(x=1.0, **{option: text})  # type: ignore[arg-type]


PIECES: dict[str, tuple[list[Any], list[Any] | None]] = {
    "integers and fractions": ([np.array([1]), np.array([0.5])], [1.0, 0.5]),
    "a large integer and fractions": ([np.array([2**53 + 1]), np.array([0.5])], None),
    "int64 and uint64": ([np.array([1]), np.array([2**63], "u8")], [1, 2**63]),
    "below nothing and uint64": ([np.array([-1]), np.array([2**63], "u8")], None),
    "numbers and strings": ([np.array([1]), np.array([b"a"], object)], None),
    "numbers and truth values": ([np.array([1]), np.array([True])], None),
    "float32 and float64": ([np.array([0.5], "f4"), np.array([0.1])], [0.5, 0.1]),
}


@pytest.mark.parametrize("name", PIECES)
def test_parts_of_different_types_are_joined_exactly_or_not_at_all(name: str) -> None:
    pieces, wanted = PIECES[name]
    if wanted is None:
        with pytest.raises(BadAnswerError):
            merge_outputs([{"y": piece} for piece in pieces], [1, 1])
    else:
        assert merge_outputs([{"y": piece} for piece in pieces], [1, 1])["y"].tolist() == wanted
