"""Every claim of infra/catalog and infra/policy has a source and a date; old ones are named."""

import datetime
import json
from pathlib import Path

import pytest

from scripts import check
from scripts.claims import StatedFact, claims, main

TODAY = datetime.date(2026, 11, 22)


def project(tmp_path: Path, *, table: object = None, module: str = "") -> Path:
    for folder in ("infra/catalog", "infra/policy"):
        (tmp_path / folder).mkdir(parents=True)
    if table is not None:
        (tmp_path / "infra/catalog/facts.json").write_text(json.dumps(table))
    (tmp_path / "infra/policy/rules.py").write_text(module)
    return tmp_path


def claim(date: str) -> StatedFact:
    return StatedFact(date, "infra/policy/rules.py", "line 1", "https://example.com")


def test_every_claim_has_a_source_and_a_date() -> None:
    assert [str(one) for one in claims() if one.missing] == []


def test_the_oldest_comes_first() -> None:
    dates = [one.date for one in claims()]
    assert dates == sorted(dates)


@pytest.mark.parametrize(
    ("date", "old"),
    [
        ("2025-05-22", False),
        ("2025-05-21", True),
        ("2025-05", True),
        ("2025-06", False),
        ("2026-11-22", False),
        ("date not stated", True),
    ],
)
def test_a_claim_is_old_after_18_months(date: str, old: bool) -> None:
    assert claim(date).old(TODAY) is old


def test_a_number_without_a_source_is_found(tmp_path: Path) -> None:
    (found,) = claims(project(tmp_path, module="# Enough.\nMOST = 5\n"))
    assert (found.what, found.missing) == ("MOST", "a source and a date")


@pytest.mark.parametrize(
    "module",
    [
        "# Assumption: enough.\nMOST = 5\n",
        '"""Source: serve.py of the image."""\n\nMOST = 5\n',
        "MIB_PER_GIB = 1024\n",
        "# Assumptions, both.\nLEAST = 1\nMOST = 5\n",
    ],
)
def test_an_assumption_a_file_and_a_unit_need_no_page(tmp_path: Path, module: str) -> None:
    assert claims(project(tmp_path, module=module)) == []


def test_a_page_without_a_date_is_found(tmp_path: Path) -> None:
    (found,) = claims(project(tmp_path, module="# https://example.com/limits\nMOST = 5\n"))
    assert (found.source, found.missing) == ("https://example.com/limits", "a date")


def test_rows_have_their_own_date_or_the_tables(tmp_path: Path) -> None:
    rows = {"a": {"source": "p"}, "b": {"source": "q", "as_of": "2021-08"}}
    table = {"source": "each row", "date": "2026-11-22", "rows": rows}
    found = {one.what: one.date for one in claims(project(tmp_path, table=table))}
    assert found == {"table": "2026-11-22", "rows.a": "2026-11-22", "rows.b": "2021-08"}


def test_the_check_names_prices_of_2021_and_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    said = capsys.readouterr().out
    assert "claims are older than 18 months" in said
    assert "2021-08" in said


def test_make_check_asks_for_claims() -> None:
    assert check.CHECKS["claims"][1:] == ["scripts/claims.py"]
