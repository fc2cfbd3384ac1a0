"""What `servable batch --limit` needs of the role of a batch's model."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.conftest import VALID
from tests.constructs.conftest import Synthesised

BATCH = """\
[batch.nightly]
model = "ranker"
instance_type = "ml.c5.xlarge"
input = "s3://tables/rows/"
output = "s3://results/scores/"
content_type = "text/csv"
"""


@pytest.mark.parametrize(
    ("action", "resource", "prefix"),
    [
        ("s3:GetObject", "s3:::results/scores/servable-trial/*", None),
        ("s3:ListBucket", "s3:::results", ["scores/servable-trial/*"]),
        ("s3:PutObject", "s3:::results/scores/*", None),
        ("s3:GetObject", "s3:::tables/rows/*", None),
        ("s3:ListBucket", "s3:::tables", ["rows/*"]),
    ],
)
def test_the_role_reads_the_copy_of_first_rows_and_nothing_else_of_the_results(
    synthesise: Callable[[str], Synthesised], action: str, resource: str, prefix: list[str] | None
) -> None:
    granted = [
        statement.get("Condition", {}).get("StringLike", {}).get("s3:prefix")
        for policy in synthesise(VALID + BATCH).all("AWS::IAM::Policy")
        for statement in policy["PolicyDocument"]["Statement"]
        if action in _listed(statement["Action"])
        and any(
            str(each).rstrip("']}").endswith(resource) for each in _listed(statement["Resource"])
        )
    ]
    assert [_listed(given) if given else None for given in granted] == [prefix]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
