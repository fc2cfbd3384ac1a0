"""How long scaling waits between two changes."""

from hypothesis import given
from hypothesis import strategies as st

from infra.policy.derived_settings import compute_cooldowns

SECONDS = st.integers(0, 604_800)


@given(SECONDS, SECONDS, st.none() | st.floats(0, 10_000))
def test_what_the_file_says_is_taken(out: int, back: int, start: float | None) -> None:
    found = compute_cooldowns(out_seconds=out, in_seconds=back, start_seconds=start)
    assert (found.out_seconds, found.in_seconds) == (out, back)
    half = compute_cooldowns(out_seconds=out, in_seconds=None, start_seconds=start)
    assert half.in_seconds == 2 * out


@given(st.floats(0.1, 10_000))
def test_a_new_instance_answers_before_another_is_added_at_half_that_pace_one_goes(
    start: float,
) -> None:
    found = compute_cooldowns(out_seconds=None, in_seconds=None, start_seconds=start)
    assert start <= found.out_seconds < start + 30
    assert found.in_seconds == 2 * found.out_seconds


def test_a_cooldown_says_why_and_of_unknown_size_it_is_application_auto_scalings() -> None:
    found = compute_cooldowns(out_seconds=None, in_seconds=None, start_seconds=None)
    assert (found.out_seconds, found.in_seconds) == (300, 600)
    for out, start, reason in [
        (60, 203.4, "from the file"),
        (None, None, "Application Auto Scaling's default, because the start time is unknown"),
        (None, 203.4, "a new instance responds after about 203 s and relieves others only then"),
    ]:
        found = compute_cooldowns(out_seconds=out, in_seconds=None, start_seconds=start)
        assert found.out_reason == reason
    for back, reason in [
        (60, "from the file"),
        (None, "twice the scale-out cooldown, because one instance too few fails requests"),
    ]:
        assert (
            compute_cooldowns(out_seconds=1, in_seconds=back, start_seconds=None).in_reason
            == reason
        )
