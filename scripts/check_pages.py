"""Links, headings, commands and keys on every page that people read: each must hold.

python scripts/check_pages.py
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.documentation import environment_keys, links  # noqa: E402  (the path comes first)
from scripts.documentation.command_lines import Lines, programs  # noqa: E402
from scripts.documentation.pages import pages  # noqa: E402


def problems(root: Path) -> list[str]:
    """One line each, with page and line; none where all is well."""
    found = pages(root, programs())
    return [
        *links.broken(root, found),
        *Lines(root).problems(found),
        *environment_keys.unknown(found),
    ]


def main(root: Path = ROOT) -> int:
    found = problems(root)
    print("\n".join(found) or "no finding")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
