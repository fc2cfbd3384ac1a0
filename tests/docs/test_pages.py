"""Every link leads somewhere, and every command in a page is one that its program takes.

Also AGENTS.md, here and in a new project, and llms.txt; what is generated; versions of clients.
"""

import json
import re
import shutil
from pathlib import Path

import click
import pytest

from scripts import demo, generate
from scripts.check import CHECKS
from scripts.documentation.reference_pages import render_commands
from servable.main import COMMANDS
from servable.new.project_files import TEMPLATE
from tests.checkouts import ROOT
from tests.docs import check_pages
from tests.docs.check_pages import PROGRAMS
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


def test_pages_for_agents_are_short_and_their_links_name_pages() -> None:
    llms = ROOT / "docs" / "llms.txt"
    for file in (ROOT / "AGENTS.md", TEMPLATE / "AGENTS.md", llms):
        assert 20 < len(file.read_text(encoding="utf-8").splitlines()) <= 120

    links = re.findall(r"\]\(([^)]+)\)", llms.read_text(encoding="utf-8"))
    missing = [link for link in links if not (ROOT / link).with_suffix(".md").is_file()]
    assert (missing, len(links) > 10) == ([], True)


def test_every_command_of_a_new_projects_page_exists(project: Path) -> None:
    text = (TEMPLATE / "AGENTS.md").read_text(encoding="utf-8")
    (project / "README.md").write_text(text.replace("ENV/", "prod/").replace("ENV", "prod"))
    assert check_pages.problems(project) == []


def test_the_versions_of_clients_on_the_page_are_those_of_the_locks() -> None:
    page = (ROOT / "docs/local-aws.md").read_text(encoding="utf-8")
    section = page.partition("### Clients that were run against it")[2].partition("### ")[0]
    names = "aws-cdk|boto3|awscli|sagemaker|@aws-sdk/client-sagemaker-runtime"
    shown = dict(re.findall(rf"(?<![\w/-])({names}) ([0-9.]+[0-9])", section))
    lock = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^(boto3|awscli|sagemaker)==(\S+)", lock, re.MULTILINE))
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert shown == locked | package["devDependencies"]


def test_make_check_looks_for_stale_files_and_broken_pages() -> None:
    for check in ["scripts/generate.py", "tests.docs.check_pages"]:
        assert any(check in command for command in CHECKS.values())
    named = {f"## servable {command}" for command in COMMANDS}
    assert named <= set((ROOT / "docs/reference/commands.md").read_text().splitlines())


def test_a_generated_file_with_one_letter_changed_or_missing_is_stale(tmp_path: Path) -> None:
    wanted = {"docs/a.md": "a page\n", "docs/b.md": "a page\n", "docs/c.md": "a page\n"}
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a page\n")
    (tmp_path / "docs" / "b.md").write_text("b page\n")
    assert sorted(generate.find_stale_files(tmp_path, wanted)) == ["docs/b.md", "docs/c.md"]


def test_a_stale_file_fails_the_check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(generate, "GENERATED", {"docs/page.md": lambda: "new\n"})
    said = generate.main(["--check"], tmp_path)
    assert said == "stale: docs/page.md; run: python scripts/generate.py"


def test_another_option_of_a_command_changes_the_page_of_commands() -> None:
    @click.group(name="servable")
    def group() -> None: ...

    def page(*options: str) -> str:
        params = [click.Option([option]) for option in options]
        group.commands = {"check": click.Command("check", params=list(params))}
        return render_commands(group)

    assert page("--json") != page("--json", "--explain")
