"""A synthesis that a signal ends leaves nothing in the temporary folder, Node.js's files included."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.checkouts import ROOT

pytestmark = pytest.mark.long

APP = ["-m", "servable.app"]
# A command that synthesises.
COMMAND = """
from pathlib import Path
from infra.parameters.loading import load
from servable.plan.synthesis import synthesise_stacks
from servable.console.signals import end_on_ctrl_c, raise_on_ctrl_c
end_on_ctrl_c()
raise_on_ctrl_c()
root = Path.cwd()
synthesise_stacks(load(root, root / "environments")[0])
"""


@pytest.mark.parametrize(
    ("arguments", "to", "number", "code"),
    [
        pytest.param(APP, os.kill, signal.SIGTERM, 143, id="the app"),
        pytest.param(APP, os.killpg, signal.SIGTERM, 143, id="the app's process group"),
        pytest.param(APP, os.killpg, signal.SIGINT, 130, id="Ctrl-C in a terminal"),
        pytest.param(["-c", COMMAND], os.kill, signal.SIGTERM, -signal.SIGINT, id="a command"),
    ],
)
def test_a_signal_leaves_no_temporary_file(
    arguments: list[str],
    to: Callable[[int, int], None],
    number: signal.Signals,
    code: int,
    tmp_path: Path,
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-P", *arguments],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(temporary), "CDK_OUTDIR": str(tmp_path / "out")}
        | {"PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        while process.poll() is None and not list(temporary.rglob("jsii-kernel-*/*")):
            time.sleep(0.01)
        to(process.pid, number)
    assert (process.returncode, list(temporary.iterdir())) == (code, [])
