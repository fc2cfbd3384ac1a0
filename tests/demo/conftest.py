"""The demonstrations' project, synthesised once for those that are interrupted."""

import os
from pathlib import Path

import pytest

from tests.checkouts import PATH, ROOT, run_in


@pytest.fixture(scope="session")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("assembly") / "cdk.out"
    synth = ("cdk", "synth", "local/*", "--quiet", "--output", str(folder))
    ran = run_in(ROOT, *synth, environment={**os.environ, "PATH": PATH})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder
