"""Every table of infra/catalog, and every row that names a source of its own, has a source and a date."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.checkouts import ROOT

TABLES = sorted((ROOT / "infra" / "catalog").glob("*.json"))
DATE = re.compile(r"20\d\d-\d\d(-\d\d)?|date not stated")


def sources(part: Any, date: object, key: str = "table") -> Iterator[tuple[str, object, object]]:
    """Yield (key, source, date) of the table and of each row with a source."""
    if isinstance(part, dict):
        date = part.get("date", part.get("as_of", date))
        if "source" in part or key == "table":
            yield key, part.get("source"), date
        for name, value in part.items():
            yield from sources(value, date, name)
    elif isinstance(part, list):
        for value in part:
            yield from sources(value, date, key)


@pytest.mark.parametrize("file", TABLES, ids=lambda file: file.name)
def test_a_table_and_its_rows_have_a_source_and_a_date(file: Any) -> None:
    found = [*sources(json.loads(file.read_text(encoding="utf-8")), None)]
    assert found
    assert [each for each in found if not each[1] or not DATE.fullmatch(str(each[2]))] == []


def test_a_row_without_a_date_is_found() -> None:
    rows = {"a": {"source": "p", "as_of": "2021-08"}, "b": {"source": "q"}}
    assert [*sources({"source": "each row", "rows": rows}, None)] == [
        ("table", "each row", None),
        ("a", "p", "2021-08"),
        ("b", "q", None),
    ]
