"""Every link leads somewhere, and every command in a page is one that its program takes."""

import shutil
from pathlib import Path

import pytest

from scripts import demo
from tests.checkouts import ROOT
from tests.docs import check_pages
from tests.docs.command_lines import PROGRAMS
from tests.docs.pages import pages

# (what a page says, what the check says of it)
BROKEN = {
    "a link to no file": ("[there](docs/nowhere.md)", "there is no such file"),
    "a link to no heading": ("[there](#nowhere)", "README.md has no such heading"),
    "a heading of another page": ("[there](docs/page.md#nowhere)", "docs/page.md has no such"),
    "no command": ("    servable chekc prod", "there is no command 'chekc'"),
    "no option": ("    servable check --fast", "No such option '--fast'"),
    "no environment": ("    servable check prd", "there is no environment 'prd'"),
    "an option without its value": ("    servable history prod --restore", "requires an argument"),
    "a missing argument": ("    servable cost", "ENV is missing"),
    "an argument too many": ("    servable cost prod main", "too much: main"),
    "a value of another kind": ("    servable serve prod --port many", "'many' is not"),
    "a key of --set": ("    servable check --set prod.endpiont.name=x", "endpiont"),
    "a file of ours": ("    servable invoke prod --body examples/none.json", "no examples/none.json"),
    "a folder of ours": ("    servable check --environments examples/none", "no such folder"),
    "in a sentence": ("see `servable chekc`", "there is no command 'chekc'"),
    "an option in a sentence": ("see `servable check --fast`", "No such option '--fast'"),
    "the second of two in a sentence": ("`servable local up | away`", "no command 'away'"),
    "after the first of a line": ("    cd docs && servable chekc", "no command 'chekc'"),
    "inside another": ('    eval "$(servable local upp)"', "no command 'upp'"),
    "with a prompt": ("```console\n$ servable chekc\nanswer\n```", "no command 'chekc'"),
    "over two lines": ("    servable check \\\n        --fast", "No such option '--fast'"),
    "a target of make": ("    make teas", "make has no target teas"),
    "cdk's command": ("    cdk deplyo 'prod/*'", "'deplyo' is not one of"),
    "cdk's option": ("    cdk deploy 'prod/*' --fast", "No such option '--fast'"),
    "cdk's environment": ("    cdk deploy 'prd/*'", "there is no environment 'prd'"),
    "cdk's key": ("    cdk synth -c nga=true", "-c nga: app.py does not ask for it"),
    "cdk alone": ("    cdk", "Missing argument 'COMMAND'"),
    "cdk's folder": ("    cdk list -c environments=examples/none", "there is no such folder"),
    "cdk's override": ("    cdk synth -c prod.endpiont.name=x", "endpiont"),
    "a module": ("    python -m scripts.nowhere", "there is no module scripts.nowhere"),
    "a script": ("    python scripts/nowhere.py", "there is no scripts/nowhere.py"),
    "Python": ('    python -c "import"', "is no Python"),
    "quotes": ("    make check 'and more", "No closing quotation"),
    "requirements": ("    pip install -r requirements-none.txt", "no requirements-none.txt"),
    "another program": ("```sh\nterraform apply\n```", "terraform is not known"),
    "a key": ('    variants.primary.max_instance = 2', "has the key variants.primary.max_instance"),
    "in a comment of a table": ('```toml\nregion = "#"  # `servable chekc`\n```', "no command 'chekc'"),
    "a key of a table": ("```toml\n[alarms]\np99 = 100\n```", "has the key alarms.p99"),
    "a key in a sentence": ("see `models.NAME.godlen`", "has the key models.NAME.godlen"),
    "a block of Python": ("```python\nimport\n```", "is no python"),
    "what is nothing": ("    what is this?", "neither TOML, Python nor commands"),
}  # fmt: skip


@pytest.mark.long  # `make check` runs it too
def test_every_link_and_command_of_the_pages_holds() -> None:
    assert check_pages.problems(ROOT) == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the environments, the Makefile and one page."""
    shutil.copytree(ROOT / "environments", tmp_path / "environments")
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in ("docs", "examples", "scripts"):
        (tmp_path / folder).mkdir()
    (tmp_path / "docs" / "page.md").write_text("# A page\n")
    return tmp_path


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_hold_is_said(case: str, project: Path) -> None:
    text, said = BROKEN[case]
    (project / "README.md").write_text(f"# Title\n\n{text}\n")
    (problem,) = check_pages.problems(project)
    assert said in problem


def test_what_holds_is_not_said(project: Path) -> None:
    (project / "README.md").write_text(
        "# Title\n\n[a](#title) [b](docs/page.md#a-page) [c](https://example.com)\n\n"
        "    servable init my/my_model\n    servable check prod my-model --json > file.txt\n"
        "    cdk deploy 'prod/*' -c prod.variants.primary.max_instances=20\n"
        "    AWS_REGION=eu-west-1 make check\n\n"
        "`servable cost ENV [--against REF]`, `servable check`, `servable local up | status`, "
        "`servable history --restore`, `servable init`\n"
    )
    assert check_pages.problems(project) == []


def test_two_headings_of_the_same_words_have_anchors_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A `code`, twice\n\n# A `code`, twice\n")
    (page,) = pages(tmp_path, PROGRAMS)
    assert page.anchors() == {"a-code-twice", "a-code-twice-1"}


def test_the_demo_ends_with_commands_that_their_programs_take(project: Path) -> None:
    lines = [line.strip() for line in demo.NEXT.splitlines() if line.startswith("    ")]
    commands = "\n".join(line for line in lines if not line.startswith("export "))
    (project / "docs" / "page.md").write_text(f"# A page\n\n```sh\n{commands}\n```\n")
    assert check_pages.problems(project) == []
