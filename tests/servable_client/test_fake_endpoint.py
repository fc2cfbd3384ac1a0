"""The seam for tests of applications."""

from typing import Any

import numpy as np
import pytest

from servable_client import BodyTooLargeError, FakeEndpoint, RefusedError, ThrottledError


def double(x: Any) -> Any:
    return {"y": x * 2}


def test_the_function_answers_whatever_the_form_name_and_variant() -> None:
    cases: list[Any] = ["protobuf", "npz", "json"]
    for form in cases:
        found = FakeEndpoint(double).predict(x=np.arange(3.0), format=form)["y"].tolist()
        assert found == [0, 2, 4]
    assert FakeEndpoint(lambda only: {"y": only}).predict(np.arange(3)).only.tolist() == [0, 1, 2]
    assert FakeEndpoint(double).predict(x=[1.0], variant="green").variant == "green"
    assert FakeEndpoint(double).submit(x=[1.0]).result(timeout_seconds=0)["y"].tolist() == [2]


def test_calls_are_remembered_and_failures_come_first_once_each() -> None:
    fake = FakeEndpoint(double)
    fake.predict(x=[1.0, 2.0])
    assert [call["x"].tolist() for call in fake.calls] == [[1, 2]]

    fake = FakeEndpoint(double, failures=[None, RefusedError("no"), None])
    fake.predict(x=[1.0])
    with pytest.raises(RefusedError):
        fake.predict(x=[1.0])
    fake.predict(x=[1.0])
    assert len(fake.calls) == 2
    fake = FakeEndpoint(double, failures=[ThrottledError("no", retry_after_seconds=30)])
    assert fake.predict(x=[1.0])["y"].tolist() == [2]


def test_limits_are_kept_and_what_the_function_raises_is_the_tests_own_error() -> None:
    with pytest.raises(BodyTooLargeError):
        FakeEndpoint(double).predict(x=np.zeros(7_000_000, np.uint8))
    with pytest.raises(ZeroDivisionError):
        FakeEndpoint(lambda x: {"y": 1 // 0}).predict(x=[1.0])
