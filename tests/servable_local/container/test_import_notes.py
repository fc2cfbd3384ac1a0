"""Lines that TensorFlow's import always writes are left out of the log, and no other."""

import subprocess
import sys

import pytest

BEGIN = """\
import os
from servable_local.container.model_server.__main__ import filter_usual_notes
with filter_usual_notes():
    os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written to STDERR\\n")
    os.write(2, b"I0000 port.cc:153] oneDNN custom operations are on. You may see\\na failure\\n")
"""


@pytest.mark.parametrize("end", ["", "    os.abort()\n", "os.write(2, b'later\\n')\n"])
def test_only_the_usual_notes_are_left_out(end: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN + end], capture_output=True, text=True, check=False
    )
    assert ran.stderr == "a failure\n" + ("later\n" if "later" in end else "")
