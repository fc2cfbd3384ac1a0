"""The container waits less than is configured, by the rule of its image's version."""

import hypothesis.strategies as st
from hypothesis import given

from infra.policy.sizing import (
    ModelSizes,
    choose_download_timeout,
    choose_startup_timeout,
    find_default_wait,
    find_real_wait,
    find_wait_setting,
)

VERSIONS = ["2.19", "2.20"]
# And those at which a retry more fits in.
SECONDS = (
    *range(1, 3601),
    *range(3601, 86_401, 100),
    *(2**power // 10 + more for power in range(15, 20) for more in (0, 1, 2)),
)


def test_the_default_is_the_images() -> None:
    for tensorflow, processes, real in [
        ("2.20", 1, 51.0),
        ("2.20", 4, 51.0),
        ("2.19", 1, 25.4),
        ("2.19", 4, 6.2),
    ]:
        configured = find_default_wait(tensorflow, processes=processes)
        assert find_real_wait(configured, tensorflow) == real


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


def waited_seconds(configured_seconds: int, tensorflow: str) -> float:
    """The pauses of those retries, of which the first comes at once."""
    pauses = (
        min(0.1 * float(2**n), 120.0) for n in range(1, retries_of(configured_seconds, tensorflow))
    )
    return round(sum(pauses), 1)


def test_the_table_is_the_images_rule_and_changes_at_its_seconds() -> None:
    for configured, real in [(3, 1.4), (51, 25.4), (60, 51.0), (325, 204.6)]:
        assert find_real_wait(configured, "2.20") == real
    for tensorflow in VERSIONS:
        for seconds in SECONDS:
            assert find_real_wait(seconds, tensorflow) == waited_seconds(seconds, tensorflow), (
                seconds
            )


def test_a_load_as_long_as_the_image_waits_needs_no_more_and_a_longer_one_a_day() -> None:
    for tensorflow in VERSIONS:
        for configured in [1, 3, 13, 100, 5000, 52_429]:
            load = find_real_wait(configured, tensorflow)
            smallest = find_wait_setting(load, tensorflow)
            assert smallest <= configured
            assert find_real_wait(smallest, tensorflow) == load
    assert find_wait_setting(5000, "2.20") == 24 * 60 * 60


@given(st.floats(0, 1044), st.sampled_from(VERSIONS))
def test_what_is_configured_for_a_load_really_waits_for_it(load: float, tensorflow: str) -> None:
    configured = find_wait_setting(load, tensorflow)
    assert find_real_wait(configured, tensorflow) >= load
    assert configured == 1 or find_real_wait(configured - 1, tensorflow) < load


# 0.2 GiB are loaded in a second, and 0.1 downloaded (assumptions of infra/policy/sizing.py); SageMaker
# takes 60 to 3600 s, and waits for 60 s by default.
def test_timeouts_are_twice_the_load_or_download_in_whole_minutes() -> None:
    for gib, processes, timeout in [
        (6.0, 1, None),
        (3.0, 2, None),
        (6.01, 1, 120),
        (12.0, 1, 120),
        (12.01, 1, 180),
        (6.01, 2, 180),
        (350.0, 1, 3540),
        (354.01, 1, 3600),
        (400.0, 1, 3600),
        (None, 1, None),
    ]:
        served = ModelSizes(model_gib=gib)
        assert choose_startup_timeout(served, processes=processes) == timeout
    for gib, timeout in [(3.0, None), (3.01, 120), (6.01, 180), (179.9, 3600), (None, None)]:
        served = ModelSizes(model_gib=gib, compressed=False)
        assert choose_download_timeout(served) == timeout
