"""What a graph restores and fills when it is loaded is read from the files that TensorFlow wrote."""

from pathlib import Path

import pytest

from model_packaging.saved_model.initialization import VocabularyTable, find_vocabulary_fault
from model_packaging.saved_model.operations import read_operations
from model_packaging.saved_model.variables import read_stored_variables

EXPORTS = Path(__file__).resolve().parents[1] / "exports" / "models"
WITH_VARIABLES = sorted(file.parents[2] for file in EXPORTS.glob("*/1/variables/variables.index"))
WORDS = VocabularyTable(file="v", key_column=-2, value_column=-1, delimiter="\t", lines=-1)
COLUMNS = VocabularyTable(file="v", key_column=0, value_column=1, delimiter="\t", lines=-1)
NUMBERS = VocabularyTable(
    file="v", key_column=0, value_column=1, delimiter="\t", lines=-1, types=("string", "int64")
)
NUMBERED = VocabularyTable(file="v", key_column=-1, value_column=-2, delimiter="\t", lines=-1)
THREE = VocabularyTable(file="v", key_column=-2, value_column=-1, delimiter="\t", lines=3)
# Table, text, the fault; tests/packaging/test_against_tensorflow.py asks TensorFlow about each.
VOCABULARIES = [
    (WORDS, "a\nb\nc\n", None),
    (WORDS, "a\nb\nc", None),
    (WORDS, "a\r\nb\r\n", None),
    (WORDS, "a b\nb\ta\n\u00e9\n", None),
    (WORDS, "A\na\n a\n", None),
    (WORDS, "a\nb\na\n", "line 3: the key 'a' occurs twice, with different values"),
    (WORDS, "a\r\na\n", "line 2: the key 'a' occurs twice, with different values"),
    (WORDS, "", "is empty"),
    (WORDS, "a\n\nb\n", "line 2 is empty"),
    (WORDS, "\n", "line 1 is empty"),
    (NUMBERED, "a\nb\na\n", None),
    (COLUMNS, "a\t1\nb\t2\na\t1\n", None),
    (COLUMNS, "a\t1\na\t2\n", "line 2: the key 'a' occurs twice, with different values"),
    (COLUMNS, "a\t1\nb\n", "line 2 has 1 columns, but the graph reads column 2"),
    (NUMBERS, "a\t1\nb\t-2\n", None),
    (NUMBERS, "a\t1\nb\ttwo\n", "line 2: 'two' is not a number, but the table contains int64"),
    (NUMBERS, "a\t1.5\n", "line 1: '1.5' is not a number, but the table contains int64"),
    (THREE, "a\nb\nc\nd\n", None),
    (THREE, "a\nb\nc\na\n", None),
    (THREE, "a\nb\n", "has 2 lines, but the graph reads 3"),
]


@pytest.mark.parametrize(("table", "text", "fault"), VOCABULARIES)
def test_a_vocabulary_is_judged_as_tensorflow_fills_its_table(
    tmp_path: Path, table: VocabularyTable, text: str, fault: str | None
) -> None:
    (tmp_path / "v").write_bytes(text.encode())
    assert find_vocabulary_fault(tmp_path / "v", table) == fault


def test_the_table_of_a_vocabulary_is_found_through_the_functions() -> None:
    (table,) = read_operations(Path(__file__).parent / "vocabulary" / "1").vocabularies or ()
    assert (table.file, table.key_column, table.value_column) == ("words.txt", 0, -1)


@pytest.mark.parametrize("export", WITH_VARIABLES, ids=lambda export: str(export.name))
def test_what_a_graph_restores_is_in_its_own_checkpoint(export: Path) -> None:
    stored = read_stored_variables(export / "1")
    missing = [
        variable.key
        for variable in read_operations(export / "1").restored or ()
        if stored[variable.key].dtype != variable.dtype
        or (variable.shape is not None and stored[variable.key].shape != variable.shape)
    ]
    assert missing == []


def test_what_was_read_is_the_same_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_packaging.saved_model.operations.CACHED_FROM_BYTES", 0)
    version = WITH_VARIABLES[0] / "1"
    first = read_operations(version, cache=tmp_path)
    assert list(tmp_path.rglob("*.json")) != []
    assert read_operations(version, cache=tmp_path) == first
