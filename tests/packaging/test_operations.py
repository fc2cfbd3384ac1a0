"""A graph's operations, as they are read without TensorFlow."""

from pathlib import Path

import pytest

from model_packaging.refusal import PackagingError
from model_packaging.saved_model import graph_file
from model_packaging.saved_model import operations as reading
from model_packaging.saved_model.graph_file import GraphOperations
from model_packaging.saved_model.operations import FOLDER, read_operations
from servable_tensors import wire
from tests.conftest import RANKER
from tests.preflight.graphs import PRODUCER, Graph


@pytest.fixture
def graph(tmp_path: Path) -> Graph:
    return Graph(tmp_path / "1")


def read(graph: Graph, cache: Path | None = None) -> GraphOperations:
    graph.write()
    return read_operations(graph.folder, cache=cache)


def ops(found: GraphOperations) -> list[str]:
    return [operation.op for operation in found.operations]


def test_the_versions_and_the_signatures_function_are_read(graph: Graph) -> None:
    assert read(graph).producer == PRODUCER
    found = read_operations(RANKER / "1")
    assert any(operation.function.startswith("__inference_serve") for operation in found.operations)


def test_what_repeats_is_read_once_without_what_a_constant_holds(graph: Graph) -> None:
    graph.main("NoOp")
    graph.served("NoOp")
    assert ops(read(graph)).count("NoOp") == 1

    for value in (b"a", b"b"):
        graph.main("Const", value=wire.AttrValue(tensor=value))
    assert ops(read(graph)).count("Const") == 1

    own = wire.AttrValue(func=wire.NameAttrList(name="__inference_called"))
    graph.called("PartitionedCall", f=own)
    assert ops(read(graph)).count("PartitionedCall") == 1


def test_another_attribute_or_one_less_is_another_operation(graph: Graph) -> None:
    graph.main("Sum", keep_dims=True)
    graph.main("Sum", keep_dims=False)
    graph.main("Sum")
    assert ops(read(graph)).count("Sum") == 3


def test_a_large_graph_comes_without_its_constants(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    with pytest.raises(PackagingError, match="is truncated or damaged"):
        read_operations(graph.folder)


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
