"""The project of the demonstration, synthesised once for the tests that deploy it."""

import os
from pathlib import Path

import pytest

from tests.checkouts import PATH, ROOT, succeed_in

P99_LATENCY_MS = 250  # allowed by the alarm: a busy computer alone must not set it off


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assembly") / "cdk.out"
    alarm = ("-c", f"local.alarms.p99_latency_ms={P99_LATENCY_MS}")
    synth = ("cdk", "synth", "local/*", "--quiet", "--output", folder)
    succeed_in(ROOT, *synth, *alarm, environment={**os.environ, "PATH": PATH})
    return folder
