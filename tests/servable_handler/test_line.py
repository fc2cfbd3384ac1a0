"""servable_handler/transport/http2/frames.py under gevent, as in the container's workers."""

import json
import subprocess
import sys

import pytest


@pytest.mark.long
def test_calls_under_gevent_wait_side_by_side_and_end_at_their_deadlines() -> None:
    code = (
        "import gevent.monkey\ngevent.monkey.patch_all()\n"
        "from tests.servable_handler.under_gevent import main\nmain()"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert json.loads(ran.stdout) == {
        "answers": ["x", "x"],
        "later deadline first": ["too late", "too late"],
        "closed": "unreachable",
        "more than buffers hold": "all",
        "never read": "too late",
        "one after the other": ["1", "2"],
    }
