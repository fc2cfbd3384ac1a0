"""The container waits less than is configured, by the rule of its image's version."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from infra.policy.wait_time import (
    LONGEST_SECONDS,
    default_seconds,
    real_wait_seconds,
    wait_seconds_for,
)

VERSIONS = ["2.19", "2.20"]


@pytest.mark.parametrize(
    ("configured", "real"),
    [(3, 1.4), (6, 3.0), (50, 25.4), (51, 25.4), (60, 51.0), (300, 204.6), (325, 204.6)],
)
def test_2_20_waits_less_than_is_configured(configured: int, real: float) -> None:
    assert real_wait_seconds(configured, "2.20") == real


@pytest.mark.parametrize(
    ("tensorflow", "processes", "real"),
    [("2.20", 1, 51.0), ("2.20", 4, 51.0), ("2.19", 1, 25.4), ("2.19", 4, 6.2)],
)
def test_the_default_is_the_images(tensorflow: str, processes: int, real: float) -> None:
    configured = default_seconds(tensorflow, processes=processes)
    assert real_wait_seconds(configured, tensorflow) == real


def retries_of(configured_seconds: int, tensorflow: str) -> int:
    """The image's rule, written out: how many retries fit into the configured time."""
    if tensorflow == "2.20":
        retries = 0
        while (2 ** (retries + 1) - 1) <= 10 * configured_seconds:
            retries += 1
        return retries
    retries, waited = 1, 0
    while waited < 10 * configured_seconds:
        retries += 1
        waited += 2 ** (retries + 1)
    return retries


@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_the_table_is_the_images_rule(tensorflow: str) -> None:
    for seconds in range(1, 3601):
        # The first retry comes at once.
        pauses = [min(0.1 * 2**n, 120.0) for n in range(1, retries_of(seconds, tensorflow))]
        assert real_wait_seconds(seconds, tensorflow) == pytest.approx(sum(pauses)), seconds


@given(st.floats(0, 1044), st.sampled_from(VERSIONS))
def test_what_is_configured_for_a_load_really_waits_for_it(load: float, tensorflow: str) -> None:
    configured = wait_seconds_for(load, tensorflow)
    assert real_wait_seconds(configured, tensorflow) >= load
    assert configured == 1 or real_wait_seconds(configured - 1, tensorflow) < load


def test_a_load_that_no_image_waits_for_gets_a_day() -> None:
    assert wait_seconds_for(5000, "2.20") == LONGEST_SECONDS
