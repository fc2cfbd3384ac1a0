"""Environment files of a git revision, and the assembly of an environment that CDK has synthesised."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest

from infra.parameters.loading import Loaded, ValidFile, build_deployed_variants, load
from model_packaging.beside import WHEELS
from model_packaging.refusal import PackagingError
from servable.new.project_files import read_cdk_context
from servable.plan.synthesis import build_stack_name, synthesise_stacks
from servable.project.revision import (
    RevisionError,
    attach_revision,
    check_out_revision,
    load_revision,
)
from tests.conftest import VALID, Environment, valid
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


def types(loaded: Loaded) -> list[str | None]:
    variants = valid(loaded).environment.variants.values()
    return [variant.instance_type for variant in variants]


@needs_git
def test_files_are_as_they_were_at_the_revision_and_stand_beside_those_of_today(
    committed: Path,
) -> None:
    then = load_revision(committed, committed / "environments", "HEAD")
    assert {name: types(loaded) for name, loaded in then.items()} == {"prod": ["ml.c5.xlarge"]}

    files = committed / "environments"
    compared = {
        one.name: one for one in attach_revision(load(committed, files), committed, files, "HEAD")
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
    with check_out_revision(committed, committed / "environments", "HEAD") as then:
        assert not (then["prod"].root / WHEELS).exists()

    (committed / WHEELS).mkdir(parents=True)
    (committed / WHEELS / "a.whl").write_bytes(b"wheel")
    with check_out_revision(committed, committed / "environments", "HEAD") as then:
        assert (then["prod"].root / WHEELS / "a.whl").read_bytes() == b"wheel"

    (committed / "code" / "inference.py").write_text("later")
    with check_out_revision(committed, committed / "environments", "HEAD") as then:
        root = then["prod"].root
        assert (root / "code" / "inference.py").read_text() != "later"
        assert types(then["prod"]) == ["ml.c5.xlarge"]
    assert not root.exists()


@needs_git
def test_a_folder_outside_of_the_project_is_named(committed: Path, tmp_path: Path) -> None:
    with pytest.raises(RevisionError, match=r"--against HEAD: .*not in the project"):
        load_revision(committed, tmp_path.parent / "elsewhere", "HEAD")


@needs_git
def test_a_project_without_git_is_gits_own_sentence(project: Path) -> None:
    with pytest.raises(RevisionError) as raised:
        load_revision(project, project / "environments", "HEAD")
    text = str(raised.value)
    assert text.startswith("--against HEAD: not a git repository")
    assert text.endswith("; give a commit, branch or tag that git log shows")


def test_without_git_it_is_said_what_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RevisionError, match="git is not installed; --against reads its history"):
        load_revision(project, project / "environments", "HEAD")


# --- what `cdk synth` writes: manifest.json of an assembly, and its templates

STACK = "aws:cloudformation:stack"


class Assembled:
    """The app's process: it writes an assembly, or fails."""

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.given: Mapping[str, Any] = {}
        self.fails: str | None = None
        self.artifacts: dict[str, Any] = {
            "tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}},
            "endpoint": self.stack("prod/endpoint (ranker-prod-endpoint)", "a.json", "named"),
            "data": self.stack("prod/data", "b.json", None),
        }
        self.templates: dict[str, Any] = {
            "a.json": {"Resources": {"A": {}}},
            "b.json": {"Resources": {"B": {}}},
        }

    @staticmethod
    def stack(display_name: str, file: str, name: str | None) -> dict[str, Any]:
        properties = {"templateFile": file} | ({"stackName": name} if name else {})
        return {"type": STACK, "displayName": display_name, "properties": properties}

    def __call__(self, arguments: list[str], **given: Any) -> "Assembled":
        self.arguments, self.given = arguments, given
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        pass

    @property
    def returncode(self) -> int:
        return int(self.fails is not None)

    def communicate(self, timeout: float) -> tuple[str, str]:
        if self.fails is not None:
            return "", self.fails
        assembly = Path(self.given["env"]["CDK_OUTDIR"], "assembly-prod")
        assembly.mkdir()
        (assembly / "manifest.json").write_text(json.dumps({"artifacts": self.artifacts}))
        for name, template in self.templates.items():
            (assembly / name).write_text(json.dumps(template))
        return "", ""


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Assembled:
    app = Assembled()
    monkeypatch.setattr("servable.plan.synthesis.subprocess.Popen", app)
    return app


@pytest.fixture
def loaded(environment: Environment) -> ValidFile:
    return valid(environment(VALID))


def test_every_stack_of_the_assembly_is_returned_with_its_kind_name_and_template(
    app: Assembled, loaded: ValidFile
) -> None:
    stacks = synthesise_stacks(loaded, Path("environments"), {})
    assert [(stack.kind, stack.name, stack.template) for stack in stacks] == [
        ("endpoint", "named", {"Resources": {"A": {}}}),
        ("data", "prod/data", {"Resources": {"B": {}}}),
    ]


def test_the_app_runs_in_the_project_with_its_context_and_overrides(
    app: Assembled, loaded: ValidFile
) -> None:
    (loaded.root / "cdk.json").write_text('{"context": {"@aws-cdk/flag": true}}')
    synthesise_stacks(loaded, Path("environments"), {"endpoint.name": "other"})
    assert app.arguments == [sys.executable, "-P", "-m", "servable.app"]
    assert app.given["cwd"] == loaded.root
    assert json.loads(app.given["env"]["CDK_CONTEXT_JSON"]) == {
        "@aws-cdk/flag": True,
        "environments": "environments",
        "prod.endpoint.name": "other",
    }
    assert "PATH" in app.given["env"]


def test_an_app_that_fails_is_its_last_line_and_no_resources_are_a_refusal(
    app: Assembled, loaded: ValidFile
) -> None:
    app.templates["a.json"] = {}
    with pytest.raises(PackagingError, match=r"prod.toml: is refused; see `servable check prod`"):
        synthesise_stacks(loaded, Path("environments"), {})
    for words, reason in [("a trace\nthe reason\n", "the reason"), ("", "servable-app failed")]:
        app.fails = words
        with pytest.raises(PackagingError) as raised:
            synthesise_stacks(loaded, Path("environments"), {})
        assert str(raised.value).endswith(f": {reason}; see `cdk synth`")


def test_a_stacks_name_is_the_environments_with_its_kind(loaded: ValidFile) -> None:
    assert [build_stack_name(loaded), build_stack_name(loaded, "data")] == [
        "prod-endpoint",
        "prod-data",
    ]


@pytest.mark.parametrize("text", [None, "{", '{"app": "x"}'])
def test_without_a_context_in_cdk_json_there_is_none(project: Path, text: str | None) -> None:
    if text is not None:
        (project / "cdk.json").write_text(text)
    assert read_cdk_context(project) == {}
