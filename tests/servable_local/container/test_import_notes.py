"""Lines that TensorFlow's import always writes are left out of standard error, and no other."""

import io
from types import SimpleNamespace
from typing import Any, cast

import pytest

from servable_local.container.launch import EndpointProcess

WRITTEN = b"""\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 port.cc:153] oneDNN custom operations are on. You may see
a failure
"""


def test_only_the_usual_notes_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    process = cast(Any, SimpleNamespace(stderr=io.BytesIO(WRITTEN)))
    EndpointProcess(process, cast(Any, None))._log.join()
    assert capsys.readouterr().err == "a failure\n"
