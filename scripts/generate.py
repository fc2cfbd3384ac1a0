"""Writes the generated files; with --check, says which are stale and exits 1.

python scripts/generate.py [--check]
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from infra.parameters import reference  # noqa: E402  (the path comes first)
from infra.policy import permissions_table  # noqa: E402
from infra.preflight import reference as rules  # noqa: E402
from scripts.descriptors import descriptor_set  # noqa: E402
from scripts.documentation import command_reference, import_graph, local_aws  # noqa: E402
from scripts.project_template import TEMPLATE  # noqa: E402
from servable_scaling import choices  # noqa: E402


def with_table(page: str, rows: Iterable[Sequence[str]]) -> str:
    """The text of a page, with these rows in its only table."""
    text = (ROOT / page).read_text(encoding="utf-8")
    head, rule, rest = re.split(r"^(\|[-:|]+\|\n)", text, flags=re.MULTILINE)
    _, end, tail = rest.partition("\n\n")
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return head + rule + table + (end + tail or "\n")


GENERATED: dict[str, Callable[[], str]] = {
    "environments/schema.json": reference.json_schema,
    "docs/parameters.md": reference.markdown,
    "docs/permissions.md": permissions_table.markdown,
    "docs/rules.md": rules.markdown,
    "docs/commands.md": command_reference.page,
    "docs/local-aws.md": lambda: with_table("docs/local-aws.md", local_aws.rows()),
    "docs/scaling-rules.md": lambda: with_table("docs/scaling-rules.md", choices.rows()),
    "servable_tensors/descriptors.base64": descriptor_set,
    "docs/architecture.md": import_graph.page,
    **TEMPLATE,
}


def stale(root: Path, wanted: Mapping[str, str]) -> list[str]:
    """Files below `root` that are not there, or are not as their source would write them now."""
    return [
        name
        for name, text in wanted.items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(arguments: Sequence[str], root: Path = ROOT) -> str | None:
    """What is wrong, in words; None: nothing is."""
    try:
        wanted = {name: text() for name, text in GENERATED.items()}
    except import_graph.NotDrawnError as wrong:
        return f"docs/architecture.md: {wrong}"
    found = stale(root, wanted)
    if "--check" in arguments:
        return f"stale: {', '.join(found)}; run: python scripts/generate.py" if found else None
    for one in found:
        (root / one).write_text(wanted[one], encoding="utf-8")
        print(f"{one}: written")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
