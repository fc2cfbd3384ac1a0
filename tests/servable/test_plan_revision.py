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
from tests.servable.test_check_against import git

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
LIVE, NEXT = VALID, VALID.replace("ml.c5.xlarge", "ml.m5.xlarge")


@pytest.fixture
def committed(project: Path) -> Path:
    """The first commit has prod with ml.c5.xlarge; the files now say ml.m5.xlarge, and new.toml is added."""
    files = project / "environments"
    (files / "prod.toml").write_text(LIVE)
    (files / "notes.txt").write_text("not an environment")
    git(project, "init", "--quiet")
    git(project, "add", "environments", "model", "code")
    git(project, "commit", "--quiet", "--message", "live")
    (files / "prod.toml").write_text(NEXT)
    (files / "new.toml").write_text(NEXT)
    return project


def find(folder: Path) -> Project:
    return Project(str(folder / "environments"))


def types(loaded: Loaded) -> list[str | None]:
    variants = valid(loaded).environment.variants.values()
    return [variant.instance_type for variant in variants]


@needs_git
def test_files_are_as_they_were_at_the_revision_and_stand_beside_those_of_today(
    committed: Path,
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


@needs_git
def test_a_checked_out_revision_has_its_own_files_and_this_computers_wheels(
    committed: Path,
) -> None:
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


@needs_git
def test_a_folder_outside_of_the_project_is_named(
    committed: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(committed)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    with pytest.raises(RevisionError, match=r"--against HEAD: .*isn't in the project"):
        load_revision(Project(str(elsewhere)), "HEAD")


@needs_git
def test_a_project_without_git_is_gits_own_sentence(project: Path) -> None:
    with pytest.raises(RevisionError) as raised:
        load_revision(find(project), "HEAD")
    text = str(raised.value)
    assert text.startswith("--against HEAD: not a git repository")
    assert text.endswith("; pass a commit, branch, or tag that git log shows")


def test_without_git_it_is_said_what_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(
        RevisionError, match="git is not installed, and --against needs it; install git"
    ):
        load_revision(find(project), "HEAD")


@pytest.mark.parametrize("text", [None, "{", '{"app": "x"}'])
def test_without_a_context_in_cdk_json_there_is_none(project: Path, text: str | None) -> None:
    if text is not None:
        (project / "cdk.json").write_text(text)
    assert read_cdk_context(project) == {}
