"""Warm-up records are replayed before the container is ready; a bad one keeps it from that."""

from pathlib import Path

import pytest

from servable_local.container.launch import LaunchError, launch
from tests.conformance import archives

pytestmark = pytest.mark.long


@pytest.mark.usefixtures("pair")
def test_every_record_is_replayed(folder: Path) -> None:
    # The first version of its model has three.
    assert "version 1: loaded in" in (said := (folder / "pair.log").read_text())
    assert "3 warm-up records replayed" in said


@pytest.mark.usefixtures("start")
def test_a_record_that_fails_keeps_the_model_from_loading(folder: Path) -> None:
    content = archives.warm_up("x", "y")
    folders = {"numbers/1": archives.MODELS / "numbers" / "1"}
    files = {f"numbers/1/{archives.WARM_UP}": content}
    archive = archives.pack(folder / "warm.tar.gz", files, folders)
    with pytest.raises(LaunchError) as refusal:
        launch(archive, {}).close()
    assert "record 2: inputs ['y'], not ['x']" in str(refusal.value)
