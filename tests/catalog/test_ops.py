"""The table of operations: what a version has, and how the script writes it."""

import json
from pathlib import Path

from infra.catalog import images
from infra.catalog.images import find_op_table
from scripts.ops_table import ADDED, as_rows, as_tables, as_text
from scripts.ops_table import _convert_value as value
from scripts.ops_table import _merge_kernels as merged
from servable_tensors import wire

CATALOG = Path(images.__file__).parent
TABLES = {
    "2.9": {"A": {"x": 1}, "B": {}},
    "2.10": {"A": {"x": 1}},
    "2.11": {"A": {"x": 2}, "B": {}},
}


def test_rows_keep_each_definition_where_it_is_new_and_give_the_tables_back() -> None:
    assert as_rows(TABLES) == {
        "A": {"2.9": {"x": 1}, "2.11": {"x": 2}},
        "B": {"2.9": {}, "2.10": None, "2.11": {}},
    }
    assert as_tables(as_rows(TABLES), TABLES) == TABLES

    text = (CATALOG / "ops.jsonl").read_text(encoding="utf-8")
    known = json.loads((CATALOG / "op_versions.json").read_text(encoding="utf-8"))["versions"]
    rows = dict(json.loads(line) for line in text.splitlines())
    assert as_text(as_rows(as_tables(rows, known))) == text

    assert (CATALOG / "ops.jsonl").stat().st_size < 1_000_000


def test_a_default_is_as_it_is_read_from_the_file_again() -> None:
    """Else a version that is added stands beside an equal one in every row."""
    found = value(wire.AttrValue(s=b"x"))
    assert found == json.loads(json.dumps(found))


def test_kernels_are_merged_by_one_attribute_only() -> None:
    kernels = [
        {"T": [1], "S": [3]},
        {"T": [2], "S": [3]},
        {"T": [1], "S": [9]},
        {"T": [2], "S": [9]},
    ]
    assert merged(kernels) == [{"S": [3, 9], "T": [1, 2]}]
    kernels = [{"T": [1], "S": [3]}, {"T": [2], "S": [9]}]
    assert merged(kernels) == [{"S": [3], "T": [1]}, {"S": [9], "T": [2]}]
    assert merged([{"T": [1]}, {}]) == [{}]


def test_every_image_from_2_12_on_has_a_table_of_operations() -> None:
    for version, known in [("2.11", False), ("2.12", True), ("2.12.1", True)]:
        assert (find_op_table(version) is not None) is known

    new = [
        version for version in images.list_versions() if images.parse_version(version) >= (2, 12)
    ]
    assert [one for one in new if find_op_table(one) is None] == []
    assert {since for since, *_ in ADDED} <= set(images.list_versions())
    for op in ["Abs", "XlaCallModule", "NoOp", "WordpieceTokenizeWithOffsets"]:
        for version in ["2.12", "2.20"]:
            table = find_op_table(version)
            assert table is not None
            assert op in table
