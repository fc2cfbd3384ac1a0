"""A graph's operations, and what it restores and fills when it is loaded, as read without TensorFlow."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from model_packaging.saved_model import graph_file
from model_packaging.saved_model import operations as reading
from model_packaging.saved_model.graph_file import GraphOperations
from model_packaging.saved_model.initialization import VocabularyTable, find_vocabulary_fault
from model_packaging.saved_model.operations import FOLDER, read_operations
from model_packaging.saved_model.variables import read_stored_variables
from servable_tensors import wire
from tests.conftest import RANKER
from tests.exports.exports import MODELS
from tests.packaging.conftest import refusal
from tests.preflight.graphs import PRODUCER, Graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph(tmp_path / "1")


def read(graph: Graph, cache: Path | None = None) -> GraphOperations:
    graph.write()
    return read_operations(graph.folder, cache=cache)


def test_the_versions_and_the_signatures_function_are_read(graph: Graph) -> None:
    assert read(graph).producer == PRODUCER
    found = read_operations(RANKER / "1")
    assert any(operation.function.startswith("__inference_serve") for operation in found.operations)


def test_what_repeats_is_read_once_without_what_a_constant_holds(graph: Graph) -> None:
    graph.main("NoOp")
    graph.served("NoOp")
    for value in (b"a", b"b"):
        graph.main("Const", value=wire.AttrValue(tensor=value))
    own = wire.AttrValue(func=wire.NameAttrList(name="__inference_called"))
    graph.called("PartitionedCall", f=own)
    # Another attribute or one less is another operation.
    graph.main("Sum", keep_dims=True)
    graph.main("Sum", keep_dims=False)
    graph.main("Sum")
    times = Counter(operation.op for operation in read(graph).operations)
    assert [times[op] for op in ("NoOp", "Const", "PartitionedCall", "Sum")] == [1, 1, 1, 3]


def test_a_large_graph_lacks_its_constants(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    graph.main("Const", value=wire.AttrValue(tensor=bytes(100_000)))
    whole = read(graph)
    for module in (graph_file, reading):
        monkeypatch.setattr(module, "LARGE_BYTES", 64)
    assert read_operations(graph.folder).operations == whole.operations
    entry = wire.AttrEntry(key="value", value=wire.AttrValue(tensor=bytes(1_000)))
    node = wire.NodeDef(name=b"c", op=b"Const", attr=[entry.SerializeToString()])
    data, end = node.SerializeToString(), node.ByteSize()
    assert graph_file.read_node(data, 0, end, largest=end) == data
    assert len(graph_file.read_node(data, 0, end, largest=end - 1)) < 100


def test_a_graph_that_is_cut_short_is_refused(graph: Graph) -> None:
    graph.write()
    file = graph.folder / "saved_model.pb"
    file.write_bytes(file.read_bytes()[:-3])
    assert "is truncated or damaged" in refusal(read_operations, graph.folder)


def test_what_was_read_of_a_large_graph_is_kept_by_content_and_read_again_if_damaged(
    graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.served("Sum", types=("T",), T=1)
    first = read(graph, tmp_path)
    assert not (tmp_path / FOLDER).exists()
    monkeypatch.setattr(reading, "CACHED_FROM_BYTES", 1)
    assert read_operations(graph.folder, cache=tmp_path) == first
    (kept,) = (tmp_path / FOLDER).iterdir()
    with monkeypatch.context() as patch:
        patch.delattr(reading, "_Reading")
        assert read_operations(graph.folder, cache=tmp_path) == first
    kept.write_text('{"operations": [{}]}')
    assert read_operations(graph.folder, cache=tmp_path) == first


WITH_VARIABLES = sorted(file.parents[2] for file in MODELS.glob("*/1/variables/variables.index"))
WORDS = VocabularyTable(file="v", key_column=-2, value_column=-1, delimiter="\t", lines=-1)
NUMBERED, THREE = replace(WORDS, key_column=-1, value_column=-2), replace(WORDS, lines=3)
COLUMNS = replace(WORDS, key_column=0, value_column=1)
NUMBERS = replace(COLUMNS, types=("string", "int64"))
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


def test_what_the_cache_holds_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_packaging.saved_model.operations.CACHED_FROM_BYTES", 0)
    version = WITH_VARIABLES[0] / "1"
    first = read_operations(version, cache=tmp_path)
    assert list(tmp_path.rglob("*.json")) != []
    assert read_operations(version, cache=tmp_path) == first
