"""AGENTS.md, here and in a new project, and llms.txt: short, and every command and link in them exists."""

import re
from pathlib import Path

from servable.new.project_files import TEMPLATE
from tests.checkouts import ROOT
from tests.docs.check_pages import problems
from tests.docs.test_pages import project

__all__ = ["project"]

LLMS = ROOT / "docs" / "llms.txt"
FILES = (ROOT / "AGENTS.md", TEMPLATE / "AGENTS.md", LLMS)


def test_pages_for_agents_are_short_and_their_links_name_pages() -> None:
    for file in FILES:
        assert 20 < len(file.read_text(encoding="utf-8").splitlines()) <= 120

    links = re.findall(r"\]\(([^)]+)\)", LLMS.read_text(encoding="utf-8"))
    missing = [link for link in links if not (ROOT / link).with_suffix(".md").is_file()]
    assert (missing, len(links) > 10) == ([], True)


def test_every_command_of_a_new_projects_page_exists(project: Path) -> None:
    text = (TEMPLATE / "AGENTS.md").read_text(encoding="utf-8")
    (project / "README.md").write_text(text.replace("ENV/", "prod/").replace("ENV", "prod"))
    assert problems(project) == []
    (project / "README.md").write_text("    servable chek prod\n")
    assert problems(project) != []
