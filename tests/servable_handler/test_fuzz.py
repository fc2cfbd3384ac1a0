"""Damaged bodies of every content type: refused or answered, never a 5xx, and nothing is kept.

Longer, by hand: `python -m tests.servable_handler.fuzz text/csv 100000 1`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servable_handler.mutation import SEEDS

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
MANY = 20_000


def fuzzed(content_type: str, count: int, timeout_seconds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.servable_handler.fuzz", content_type, str(count), "1"]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=timeout_seconds
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    assert found["failed"] == []
    assert "200" in found["statuses"]
    assert "400" in found["statuses"]
    # After the last fifth against after the first.
    assert found["memory_mib"][-1] <= 1.05 * found["memory_mib"][0], found["memory_mib"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("content_type", SEEDS)
def test_of_many_damaged_bodies_none_is_a_5xx_or_stays(content_type: str) -> None:
    check(fuzzed(content_type, MANY, 280))
