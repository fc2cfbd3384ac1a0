"""Ctrl-C ends a comparison with 130, and its processes with it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

import pytest

from infra.parameters.loading import ValidFile
from tests.checkouts import ROOT
from tests.servable.rehearse.test_rehearse import SCALED

pytestmark = pytest.mark.long


def test_ctrl_c_ends_a_comparison_and_all_of_its_processes(
    environment: Callable[..., ValidFile],
) -> None:
    root = environment(SCALED).root
    command = [
        sys.executable,
        "-m",
        "servable",
        "rehearse",
        "prod",
        "--set",
        "traffic.profile=daily",
    ]
    with subprocess.Popen(
        [*command, "--compare"],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert "days; about" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        said = process.stderr.read()  # its processes hold it too: the end of all of them
    assert (process.returncode, said.splitlines()[-1]) == (130, "interrupted; nothing was written")
