"""The faults of public threads are found as docs/reference/beyond-linters.md says."""

import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.loading import Loaded, load
from infra.preflight.check import check
from tests.conftest import make_project
from tests.preflight.graphs import Graph
from tests.preflight.overlay import overlaid

FAULTS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("beyond_linters_faults.toml").read_text()
)["fault"]


def reproduced(fault: dict[str, Any], folder: Path) -> Loaded:
    """The environment file of a fault, in a new project in `folder`."""
    folder.mkdir()
    project = make_project(folder)
    for old, new in fault.get("move", {}).items():
        (project / new).parent.mkdir(parents=True, exist_ok=True)
        (project / old).rename(project / new)
    for name in fault.get("remove", []):
        path = project / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name, text in fault.get("files", {}).items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    if "replace" in fault:
        name, old, new = fault["replace"]
        body = (project / name).read_bytes()
        assert old.encode() in body
        (project / name).write_bytes(body.replace(old.encode(), new.encode()))
    if "op" in fault:
        shutil.rmtree(project / "model")
        graph = Graph(project / "model" / "1")
        attributes = {
            name: value.encode() if isinstance(value, str) else value
            for name, value in fault.get("attributes", {}).items()
        }
        graph.served(fault["op"], ("T",), **attributes)
        graph.write()
    loaded = overlaid(project, fault.get("lines", ""))
    if "serverless" in fault.get("lines", ""):
        file = project / "environments" / "prod.toml"
        file.write_text(file.read_text().replace('instance_type = "ml.c5.xlarge"\n', ""))
        (loaded,) = load(project, file.parent)
    return loaded


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault["id"])
def test_a_public_fault_is_found_as_its_row_says(fault: dict[str, Any], tmp_path: Path) -> None:
    rules = {finding.rule for finding in check(reproduced(fault, tmp_path / "project"))}
    assert fault["rule"] in rules if fault["rule"] else rules == set()


def test_at_least_sixty_faults_of_public_threads_are_shown() -> None:
    assert len({(fault["address"], fault["fault"]) for fault in FAULTS}) >= 60
