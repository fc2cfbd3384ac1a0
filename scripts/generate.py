"""Writes the generated files; with --check, says which are stale and exits 1.

python scripts/generate.py [--check]
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import page  # noqa: E402  (the path comes first)
from infra.parameters import reference  # noqa: E402
from infra.policy import permissions_table  # noqa: E402
from infra.preflight import reference as rules  # noqa: E402

GENERATED = {
    "environments/schema.json": reference.json_schema,
    "docs/parameters.md": reference.markdown,
    "docs/permissions.md": permissions_table.markdown,
    "docs/rules.md": rules.markdown,
    "docs/performance.md": page.markdown,
}


def stale() -> list[str]:
    """Generated files that are not what their source would write now."""
    return [
        name
        for name, text in GENERATED.items()
        if not (ROOT / name).exists() or (ROOT / name).read_text(encoding="utf-8") != text()
    ]


def write(name: str) -> None:
    target = ROOT / name
    beside = target.with_suffix(".new")
    beside.write_text(GENERATED[name](), encoding="utf-8")
    beside.replace(target)


if __name__ == "__main__":
    found = stale()
    if "--check" in sys.argv[1:]:
        if found:
            sys.exit(f"stale: {', '.join(found)}; run: python scripts/generate.py")
    else:
        for one in found:
            write(one)
            print(f"{one}: written")
