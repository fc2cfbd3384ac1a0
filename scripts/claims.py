"""Facts that infra/catalog and infra/policy state of AWS and the images: those to look up again.

python scripts/claims.py    exit 1 where a source or a date is missing
"""

import ast
import datetime
import io
import json
import re
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dateutil.relativedelta import relativedelta

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("infra/catalog", "infra/policy")
OLD_MONTHS = 18
NOT_STATED = "date not stated"
# A day, or a month where a source states no more.
_DATE = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
# Where a number comes from: a page, a file of the image, or that it is our own.
_SOURCE = re.compile(r"https?://|[Ss]ources?\b|[Aa]ssum|docs/decisions/")
# A unit's own number is no claim: MIB_PER_GIB.
_UNIT = re.compile(r"(MIB|BYTES|SECONDS)_PER_(GIB|MINUTE)")


@dataclass(frozen=True, order=True)
class StatedFact:
    date: str
    """ISO day or month; empty where the code gives none, NOT_STATED where the source does not."""
    file: str
    what: str
    source: str

    @property
    def missing(self) -> str:
        """A source or a date that the claim lacks; empty when it has both."""
        parts = {"a source": self.source, "a date": self.date}
        return " and ".join(part for part, text in parts.items() if not text)

    def old(self, today: datetime.date) -> bool:
        """Whether it is older than OLD_MONTHS; what has no date counts as old."""
        match = _DATE.search(self.date)
        day = match and datetime.date(int(match[1]), int(match[2]), int(match[3] or 1))
        return day is None or day + relativedelta(months=OLD_MONTHS) < today

    def __str__(self) -> str:
        return f"{self.date or 'undated':15} {self.file}: {self.what}: {self.source or 'no source'}"


def claims(root: Path = ROOT) -> list[StatedFact]:
    """The stated facts of every table and module of the two folders, oldest first."""
    facts: set[StatedFact] = set()
    for folder in FOLDERS:
        for path in sorted((root / folder).iterdir()):
            file = f"{folder}/{path.name}"
            if path.suffix == ".json":
                table = json.loads(path.read_text(encoding="utf-8"))
                # The table's own, and one for each row with a source; equal ones are one.
                facts |= {*_of_rows(file, {"source": "", **table}, table.get("date", ""), "")}
            elif path.suffix == ".py":
                facts |= set(_of_module(file, path.read_text(encoding="utf-8")))
    return sorted(facts)


def _of_rows(file: str, part: Any, date: str, key: str) -> Iterator[StatedFact]:
    if isinstance(part, list):
        for one in part:
            yield from _of_rows(file, one, date, key)
    elif isinstance(part, dict):
        if "source" in part:
            own = str(part.get("date", part.get("as_of", date)))
            yield StatedFact(own, file, key or "table", str(part["source"]))
        for name, value in part.items():
            yield from _of_rows(file, value, date, f"{key}.{name}" if key else name)


def _of_module(file: str, text: str) -> Iterator[StatedFact]:
    """Every citation of a page, and every number of a constant that has none."""
    texts = _texts(text)
    for line, words in texts.items():
        if "http" in words:
            date = _DATE.search(words)
            page = re.search(r"https?://[^\s,;)]+", words)
            yield StatedFact(date[0] if date else "", file, f"line {line}", page[0] if page else "")
    tree = ast.parse(text)
    if _SOURCE.search(ast.get_docstring(tree) or ""):
        return
    last = ""  # constants that stand together share the comment above the first
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        last = texts.get(node.lineno - 1, last)
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name, value = getattr(target, "id", ""), node.value
        number = isinstance(value, ast.Constant) and type(value.value) in (int, float)
        if number and not _UNIT.fullmatch(name) and not _SOURCE.search(last):
            yield StatedFact("", file, name, "")


def _texts(text: str) -> dict[int, str]:
    """{last line: what it says} of each block of comments and each string."""
    found: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found[token.end[0]] = f"{found.pop(token.end[0] - 1, '')} {token.string}"
        elif token.type == tokenize.STRING:
            found[token.end[0]] = token.string
    return found


def main() -> int:
    facts = claims()
    missing = [fact for fact in facts if fact.missing]
    for fact in missing:
        print(f"{fact.file}: {fact.what} lacks {fact.missing}", file=sys.stderr)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    old = [fact for fact in facts if not fact.missing and fact.old(today)]
    if old:
        print(f"{len(old)} of {len(facts)} claims are older than {OLD_MONTHS} months:")
    for fact in old:
        print(f"  {fact}")
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
