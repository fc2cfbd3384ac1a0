"""The record of a deployment, as the CDK CLI has it written."""

import os
import subprocess
from pathlib import Path

import pytest

from infra.recording import command


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A record in a folder that an earlier release has made."""
    folder = tmp_path / ".servable" / "deployments"
    folder.mkdir(parents=True, mode=0o755)
    file = folder / "ranker.json"
    subprocess.run(
        command({}, file=file, root=tmp_path),
        check=True,
        stdout=subprocess.DEVNULL,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "AWS_EC2_METADATA_DISABLED": "true"},
        preexec_fn=lambda: os.umask(0o022) and None,
    )
    return file


def test_only_its_owner_can_read_records(recorded: Path) -> None:
    modes = [path.stat().st_mode & 0o777 for path in (recorded.parent, recorded)]
    assert modes == [0o700, 0o600]
