"""What a file cannot say: refused as it is read, on both sides of the bound."""

from pathlib import Path

import pytest

from infra.preflight.check import check
from tests.findings import message
from tests.preflight.overlay import overlaid

# By bound: the last value that is taken, and the first that is refused; over a valid file.
BOUNDS = {
    "a canary's share": ("rollout", "canary_percent", 50, 51, 'strategy = "canary"'),
    "the least step": ("rollout", "step_percent", 10, 9, 'strategy = "linear"'),
    "the largest step": ("rollout", "step_percent", 50, 51, 'strategy = "linear"'),
    "a rolling batch": ("rollout", "batch_percent", 5, 4, 'strategy = "rolling"'),
    "a bake": ("rollout", "bake_minutes", 60, 61, 'strategy = "canary"'),
    "model servers": ("variants.primary.container", "tfs_processes", 1, 0, ""),
    "an alarm's window": ("alarms", "window_minutes", 60, 1441, ""),
    "a latency, not in microseconds": ("alarms", "p99_latency_ms", 60_000, 100_000, ""),
    "an endpoint's length": ("endpoint", "name", "a" * 63, "a" * 64, ""),
    "an endpoint's characters": ("endpoint", "name", "my-endpoint", "my_endpoint", ""),
    "a volume": ("variants.primary", "volume_gb", 512, 513, ""),
    "a download": ("variants.primary", "download_timeout_seconds", 3600, 3601, ""),
}


@pytest.mark.parametrize(("table", "key", "last", "refused", "more"), BOUNDS.values(), ids=BOUNDS)
def test_the_last_value_that_aws_takes_is_taken_and_the_next_refused(
    project: Path, table: str, key: str, last: object, refused: object, more: str
) -> None:
    for value, is_refused in [(last, False), (refused, True)]:
        lines = f"[{table}]\n{more}\n{key} = {value!r}"
        found = [finding.rule for finding in check(overlaid(project, lines))]
        assert ("parameters" in found) is is_refused


def test_a_refusal_says_value_range_and_key(project: Path) -> None:
    found = check(overlaid(project, 'rollout = { strategy = "canary", canary_percent = 90 }'))
    assert message(found[0]) == (
        (
            "rollout.canary_percent",
            "90 is out of range",
            "1 or more and 50 or less",
            "set 50, the nearest",
        )
    )
