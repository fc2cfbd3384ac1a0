"""The container waits less than it was told to."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from infra.policy.wait_time import real_wait_seconds, wait_seconds_for


@pytest.mark.parametrize(
    ("configured", "real"), [(6, 3.0), (50, 25.4), (51, 51.0), (60, 51.0), (300, 204.6)]
)
def test_the_last_look_is_before_the_time_that_was_configured(configured: int, real: float) -> None:
    assert real_wait_seconds(configured) == real


@given(st.floats(0, 20_000))
def test_what_is_configured_for_a_load_really_waits_for_it(load_seconds: float) -> None:
    assert real_wait_seconds(wait_seconds_for(load_seconds)) >= load_seconds
