"""What the CDK CLI would have packed when it publishes lies in the assembly."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from stacks.packed_assembly import pack

KEPT = {"displayName": "template", "source": {"path": "x.template.json", "packaging": "file"}}


def assembly(folder: Path, program: str) -> Path:
    """One stage whose manifest has a template, and an archive that this program makes."""
    asset = {
        "displayName": "model.tar.gz of ranker",
        "source": {"executable": [sys.executable, "-c", program]},
        "destinations": {"here": {"objectKey": "key/model.tar.gz"}},
    }
    manifest = folder / "assembly-prod" / "prod.assets.json"
    manifest.parent.mkdir()
    files = {"template": KEPT, "key/model.tar.gz": asset}
    manifest.write_text(json.dumps({"version": "1", "files": files}))
    return manifest


def files(manifest: Path) -> dict[str, Any]:
    return dict(json.loads(manifest.read_text())["files"])


def test_a_packed_file_lies_beside_its_manifest_and_goes_where_it_did(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_text("packed")
    manifest = assembly(tmp_path, f"print('some words'); print({str(made)!r})")
    list(pack(tmp_path))
    assert files(manifest) == {
        "template": KEPT,
        "key/model.tar.gz": {
            "displayName": "model.tar.gz of ranker",
            "source": {"path": "packed/key/model.tar.gz", "packaging": "file"},
            "destinations": {"here": {"objectKey": "key/model.tar.gz"}},
        },
    }
    assert (manifest.parent / "packed" / "key" / "model.tar.gz").read_text() == "packed"


def test_what_cannot_be_packed_ends_the_synthesis_by_its_name(tmp_path: Path) -> None:
    assembly(tmp_path, "raise SystemExit('no model')")
    with pytest.raises(SystemExit, match="model.tar.gz of ranker: wasn't packed"):
        list(pack(tmp_path))
