"""The run of whole_run.py in a process of its own, since one process holds one local AWS."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(420)
def test_a_whole_run_and_three_that_are_interrupted_leave_nothing() -> None:
    file = Path(__file__).with_name("whole_run.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--timeout", "400", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=410)
    assert ran.returncode == 0, ran.stdout
