"""Links between pages, and to headings: each leads to something that is there."""

from collections.abc import Sequence
from pathlib import Path

from scripts.documentation.pages import Page


def broken(root: Path, found: Sequence[Page]) -> list[str]:
    """A line for each. Addresses on the network are not asked."""
    anchors = {page.name: page.anchors() for page in found}
    problems = []
    for page in found:
        for link in page.links():
            if "://" in link.target or link.target.startswith("mailto:"):
                continue
            path, _, anchor = link.target.partition("#")
            file = (root / page.name).parent / path if path else root / page.name
            where = f"{link.page}:{link.line}: [{link.target}]"
            if not file.resolve().exists():
                problems.append(f"{where}: there is no such file")
                continue
            name = file.resolve().relative_to(root.resolve()).as_posix()
            if anchor and anchor not in anchors.get(name, ()):
                problems.append(f"{where}: {name} has no such heading")
    return problems
