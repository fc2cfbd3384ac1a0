"""Environment files of a git revision, and the context of cdk.json."""

import shutil
from pathlib import Path

import pytest

from infra.parameters.loading import Loaded, build_deployed_variants
from model_packaging.beside import WHEELS
from servable.new.project_files import read_cdk_context
from servable.project.environments import Project
from servable.project.revision import (
    RevisionError,
    attach_revision,
    check_out_revision,
    load_revision,
)
from tests.conftest import VALID, valid
from tests.servable.test_check_against import Commit

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
LIVE, NEXT = VALID, VALID.replace("ml.c5.xlarge", "ml.m5.xlarge")


@pytest.fixture
def committed(prod: Path, commit: Commit) -> Path:
    """The first commit has prod with ml.c5.xlarge; the files now say ml.m5.xlarge, and new.toml is added."""
    (prod / "environments" / "notes.txt").write_text("not an environment")
    commit(LIVE)
    for name in ("prod", "new"):
        (prod / "environments" / f"{name}.toml").write_text(NEXT)
    return prod


def find(folder: Path) -> Project:
    return Project(str(folder / "environments"))


def types(loaded: Loaded) -> list[str | None]:
    variants = valid(loaded).environment.variants.values()
    return [variant.instance_type for variant in variants]


def test_a_revision_has_its_own_files_beside_those_of_today_and_this_computers_wheels(
    committed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    then = load_revision(find(committed), "HEAD")
    assert {name: types(loaded) for name, loaded in then.items()} == {"prod": ["ml.c5.xlarge"]}

    compared = {
        one.name: one
        for one in attach_revision(find(committed).load_all(), find(committed), "HEAD")
    }
    prod, new = compared["prod"], compared["new"]
    assert prod.before is not None
    assert (prod.against, prod.deployed, types(prod)) == (
        "HEAD", build_deployed_variants(prod.before), ["ml.m5.xlarge"],
    )  # fmt: skip
    assert prod.deployed["primary"].instance_type == "ml.c5.xlarge"
    assert (new.against, new.before, new.deployed) == ("HEAD", None, {})

    with check_out_revision(find(committed), "HEAD") as then:
        assert not (then["prod"].root / WHEELS).exists()

    (committed / WHEELS).mkdir(parents=True)
    (committed / WHEELS / "a.whl").write_bytes(b"wheel")
    with check_out_revision(find(committed), "HEAD") as then:
        assert (then["prod"].root / WHEELS / "a.whl").read_bytes() == b"wheel"

    (committed / "code" / "inference.py").write_text("later")
    with check_out_revision(find(committed), "HEAD") as then:
        root = then["prod"].root
        assert (root / "code" / "inference.py").read_text() != "later"
        assert types(then["prod"]) == ["ml.c5.xlarge"]
    assert not root.exists()

    elsewhere = Project(str(tmp_path_factory.mktemp("elsewhere")))
    with pytest.raises(RevisionError, match=r"--against HEAD: .*isn't in the project"):
        load_revision(elsewhere, "HEAD")


def test_without_git_or_a_context_it_is_said_what_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in [None, "{", '{"app": "x"}']:
        if text is not None:
            (project / "cdk.json").write_text(text)
        assert read_cdk_context(project) == {}

    with pytest.raises(RevisionError) as raised:
        load_revision(find(project), "HEAD")
    text = str(raised.value)
    assert text.startswith("--against HEAD: not a git repository")
    assert text.endswith("; pass a commit, branch, or tag that git log shows")
    monkeypatch.setenv("PATH", "")
    missing = "git is not installed, and --against needs it; install git"
    with pytest.raises(RevisionError, match=missing):
        load_revision(find(project), "HEAD")
