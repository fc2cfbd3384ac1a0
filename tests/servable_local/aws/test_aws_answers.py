"""The local AWS answers as AWS answered: every recorded row, but for those that the page names."""

from pathlib import Path
from typing import Any

import pytest

from tests.servable_local.aws.aws_answers import Asked, Row, rows
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long
PAGE = "docs/local-aws.md"
ALIKE = [row for row in rows() if "differs" not in row]
DIFFERENT = [row for row in rows() if "differs" in row]


@pytest.fixture(scope="module")
def clients() -> dict[str, Any]:
    return {}


def name(row: Row) -> str:
    return f"{row['service']}-{row['operation']}-{row['source'].rpartition('/')[2]}"


@pytest.mark.parametrize("row", ALIKE, ids=name)
def test_the_answer_is_aws_s(row: Row, account: Account, clients: dict[str, Any]) -> None:
    assert list(Asked(account, clients).differences(row)) == []


@pytest.mark.parametrize("row", DIFFERENT, ids=name)
def test_a_stated_difference_is_one(row: Row, account: Account, clients: dict[str, Any]) -> None:
    assert list(Asked(account, clients).differences(row)) != []


def test_what_is_answered_otherwise_is_rare_and_on_the_page() -> None:
    page = " ".join(Path(PAGE).read_text("utf-8").split())
    assert [row["differs"] for row in DIFFERENT if row["differs"] not in page] == []
    # A bound that only goes up with the same rows.
    assert len(ALIKE) / len(rows()) > 0.99
