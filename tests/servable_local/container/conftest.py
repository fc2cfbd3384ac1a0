"""Archives packed by hand."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.conformance import archives

RANKER = Path(__file__).parents[3] / "examples" / "ranker"
Pack = Callable[..., Path]


@pytest.fixture(scope="session")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Pack:
    """pack(files={name: bytes}, folders={name: path}): an archive in a folder of its own."""

    def packed(files: Mapping[str, bytes] = {}, folders: Mapping[str, Path] = {}) -> Path:
        return archives.pack(tmp_path_factory.mktemp("archive") / "model.tar.gz", files, folders)

    return packed
