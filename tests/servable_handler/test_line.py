"""servable_handler/transport/http2/frames.py under gevent, as in the container's workers."""

import json
import subprocess
import sys
from typing import Any

import pytest


@pytest.fixture(scope="module")
def found() -> Any:
    code = (
        "import gevent.monkey\ngevent.monkey.patch_all()\n"
        "from tests.servable_handler.under_gevent import main\nmain()"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("what", "heard"),
    [
        ("answers", ["x", "x"]),
        ("later deadline first", ["too late", "too late"]),
        ("closed", "unreachable"),
        ("more than buffers hold", "all"),
        ("never read", "too late"),
        ("one after the other", ["1", "2"]),
    ],
)
def test_a_line_under_gevent(what: str, heard: Any, found: Any) -> None:
    assert found[what] == heard
