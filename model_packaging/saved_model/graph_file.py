"""saved_model.pb: its graphs, each with tags and signatures, and whether they have variables."""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.protobuf_fields import (
    BYTES,
    Buffer,
    DamagedMessageError,
    Field,
    fields,
)
from servable_tensors import wire

# Field numbers from tensorflow/core/protobuf/{saved_model,meta_graph}.proto and
# tensorflow/core/framework/{graph,function,node_def}.proto.
_SCHEMA_VERSION, _META_GRAPHS = 1, 2
_GRAPH_DEF, _SAVER_DEF, _COLLECTION_DEF, _OBJECT_GRAPH_DEF = 2, 3, 4, 7
_NODE, _LIBRARY, _FUNCTION, _FUNCTION_NODE, _OP = 1, 2, 1, 3, 2
# Large, and read by walking or not at all.
_STEPPED_OVER = {_GRAPH_DEF, _SAVER_DEF, _COLLECTION_DEF, _OBJECT_GRAPH_DEF}

# The operations that hold a variable: TensorFlow 2, and both kinds of TensorFlow 1.
VARIABLE_OPS = frozenset({b"VarHandleOp", b"VariableV2", b"Variable"})

_AGAIN = "export it again, or copy it again"


@dataclass(frozen=True)
class MetaGraph:
    """One graph of a SavedModel."""

    message: Any
    """wire.MetaGraphDef: tags, TensorFlow version, signatures, assets."""
    has_variables: bool


def meta_graphs(file: Path) -> list[MetaGraph]:
    """The graphs in a saved_model.pb. Raises `PackagingError`, OSError.

    What a node's attributes hold is stepped over, so damage in the middle of a
    constant is not seen; a file that ends too early always is.
    """
    size = file.stat().st_size
    if size == 0:
        raise PackagingError(file, "is empty", _AGAIN)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:30].startswith(b"version https://git-lfs"):
            raise PackagingError(
                file, "is a Git LFS pointer, not the file itself", "run: git lfs pull"
            )
        if not _begins_like_one(data):
            raise PackagingError(file, "is not a SavedModel", "export the SavedModel again")
        try:
            graphs = [field for field in fields(data, 0, size) if _is_graph(field)]
            found = [_meta_graph(data, graph) for graph in graphs]
        except (DamagedMessageError, DecodeError) as damage:
            raise PackagingError(file, f"is truncated or damaged ({damage})", _AGAIN) from None
    if not found:
        raise PackagingError(
            file, "is not a SavedModel: it holds no graph", "export the SavedModel again"
        )
    return found


def _begins_like_one(data: mmap.mmap) -> bool:
    return data[0] in (_SCHEMA_VERSION << 3, _META_GRAPHS << 3 | BYTES)


def _is_graph(field: Field) -> bool:
    if field.number not in (_SCHEMA_VERSION, _META_GRAPHS):
        raise DamagedMessageError(f"unknown field {field.number} at byte {field.start}")
    return field.number == _META_GRAPHS


def _meta_graph(data: mmap.mmap, graph: Field) -> MetaGraph:
    small, has_variables = [], False
    for field in fields(data, graph.value, graph.end):
        if field.number not in _STEPPED_OVER:
            # Fields in a row are a message again: protobuf merges what is repeated.
            small.append(data[field.start : field.end])
        elif field.number == _GRAPH_DEF and not has_variables:
            has_variables = any(op in VARIABLE_OPS for op in _ops(data, field))
    return MetaGraph(wire.MetaGraphDef.FromString(b"".join(small)), has_variables)


def _ops(data: Buffer, graph: Field) -> Iterator[bytes]:
    for field in fields(data, graph.value, graph.end):
        if field.number == _NODE:
            yield _op(data, field)
        elif field.number == _LIBRARY:
            for function in fields(data, field.value, field.end):
                if function.number == _FUNCTION:
                    for node in fields(data, function.value, function.end):
                        if node.number == _FUNCTION_NODE:
                            yield _op(data, node)


def _op(data: Buffer, node: Field) -> bytes:
    """The operation's name; the fields behind it, where constants are, are not touched."""
    for field in fields(data, node.value, node.end):
        if field.number == _OP:
            return data[field.value : field.end]
    return b""
