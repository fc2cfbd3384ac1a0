"""Read saved_model.pb: its graphs, each with tags and signatures, its nodes, and their attributes."""

import functools
import mmap
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.initialization import RestoredVariable, VocabularyTable
from model_packaging.saved_model.unfilled import Unfilled
from servable_tensors import wire
from servable_tensors.wire import BYTES, Buffer, WireError, encode_varint, iterate_fields

# Most bytes kept of a string: a path, or the version of a StableHLO module.
_STRING_BYTES = 256
# Portable StableHLO is MLIR's bytecode, in which names end with a zero: add_v1, gather_v2.
# Source: https://mlir.llvm.org/docs/BytecodeFormat/, read 2026-11-22
_BYTECODE = b"ML\xefR"
_HEAD_BYTES = 40
_VERSIONED = re.compile(rb"(?<![a-z0-9_])[a-z][a-z0-9_]*_v[0-9]+(?=\0)")
# Beginning of an entry of NodeDef.attr with key "value" (of a constant), or "module".
VALUE = b"\n\x05value\x12"
_MODULE = b"\n\x06module\x12"

# A longer node is read without its constants.
LARGE_BYTES = 1 << 16
# Replaces a constant's value.
_TENSOR = wire.AttrEntry(key="value", value=wire.AttrValue(tensor=b"")).SerializeToString()

Place = tuple[int, int]
"""The start and end of a message in the file."""
Attribute = tuple[str, Any]
"""The field of AttrValue ("s", "i", "list(type)"; "list()" if a list is empty), and the JSON value:
the beginning of a string, None for shapes, tensors and functions."""


def format_value(kind: str, value: Any) -> str:
    """Return the value of an `Attribute` as people write it."""
    return wire.find_dtype_name(value) if kind == "type" else str(value)


def encode_field(number: int, body: bytes) -> bytes:
    return bytes((number << 3 | BYTES,)) + encode_varint(len(body)) + body


def find_messages(data: Buffer, place: Place, *path: int) -> Iterator[Place]:
    """Yield each message to which a path of field numbers leads from the message at `place`."""
    field, *inner = path
    for number, kind, first, last in iterate_fields(data, *place):
        if number == field and kind == BYTES:
            yield from find_messages(data, (first, last), *inner) if inner else ((first, last),)


def read_first(data: Buffer, place: Place, *path: int) -> bytes:
    """Return the first message or string of a path, or nothing, without reading later fields."""
    return next((data[first:last] for first, last in find_messages(data, place, *path)), b"")


def read_node(data: Buffer, start: int, end: int, *, largest: int) -> bytes:
    """Return a node's message, without its large constants if it has more than `largest` bytes."""
    if end - start <= largest:
        return data[start:end]
    kept = []
    for number, kind, first, last in iterate_fields(data, start, end):
        if kind == BYTES:
            body = _TENSOR if last - first > LARGE_BYTES else data[first:last]
            kept.append(encode_field(number, body))
    return b"".join(kept)


def reduce_attribute(entry: bytes) -> bytes:
    """Return the attribute, or an equivalent attribute without its content."""
    if len(entry) < _STRING_BYTES and not entry.startswith((VALUE, _MODULE)):
        return entry
    message = wire.AttrEntry.FromString(entry)
    kind = message.value.WhichOneof("value")
    if kind == "tensor":
        message.value.tensor = b""
    elif kind == "s":
        text = message.value.s
        message.value.s = text[:_STRING_BYTES]
        if text.startswith(_BYTECODE):  # a StableHLO module: also the names of its operations
            names = sorted(set(_VERSIONED.findall(text)))
            message.value.s = b"\0".join((text[:_HEAD_BYTES], *names))
    return bytes(message.SerializeToString())


@functools.lru_cache(maxsize=1 << 14)
def parse_attribute(entry: bytes) -> tuple[str, Attribute]:
    """Parse an entry of NodeDef.attr into its name and value."""
    message = wire.AttrEntry.FromString(entry)
    return message.key, convert_attribute_value(message.value)


def convert_attribute_value(message: Any) -> Attribute:
    """Convert a wire.AttrValue to its kind and value."""
    kind = message.WhichOneof("value") or ""
    if kind == "list":
        for item, values in message.list.ListFields():  # at most one
            return f"list({item.name})", [_convert_plain(item.name, each) for each in values]
        return "list()", []
    return kind, _convert_plain(kind, getattr(message, kind)) if kind else None


def _convert_plain(kind: str, value: Any) -> Any:
    if kind == "s":
        # latin-1 decodes any byte.
        return value.decode("latin-1")
    if kind == "func":
        return value.name
    return None if kind in ("shape", "tensor") else value


def find_function_names(attributes: Iterable[Attribute]) -> Iterator[str]:
    """Yield the functions that these values name."""
    for kind, value in attributes:
        if kind == "func":
            yield value
        elif kind == "list(func)":
            yield from value


# Field numbers from tensorflow/core/protobuf/{saved_model,meta_graph}.proto and
# tensorflow/core/framework/{graph,function,node_def}.proto.
_SCHEMA_VERSION, _META_GRAPHS = 1, 2
_GRAPH_DEF, _COLLECTION = 2, 4
_NODE, _LIBRARY, _FUNCTION, _FUNCTION_NODE, _OP = 1, 2, 1, 3, 2
# Of an entry of collection_def: its key, and the first name in its list of nodes.
_KEY, _FIRST_NODE = 1, (2, 1, 1)
# Fields of a MetaGraphDef that become a message; the rest is large, and walked at most.
_SMALL = {field.number for field in wire.MetaGraphDef.DESCRIPTOR.fields}

# The operations that hold a variable: TensorFlow 2, and both kinds of TensorFlow 1.
VARIABLE_OPS = frozenset({b"VarHandleOp", b"VariableV2", b"Variable"})
_SEARCHED = (b"VarHandleOp", b"Variable")  # one of them is in each

# tensorflow/cc/saved_model/constants.h: kSavedModelAssetsKey.
_ASSETS = b"saved_model_assets"
# kSavedModelInitOpSignatureKey, and the collections that TensorFlow 1 used, in the loader's order.
# Source: GetInitOp in tensorflow/cc/saved_model/loader_util.cc, read 2026-11-29
_INIT_SIGNATURE = "__saved_model_init_op"
_INIT_COLLECTIONS = (b"saved_model_main_op", b"legacy_init_op")

_SEARCHED_BYTES = 1 << 27

_AGAIN = "export it again, or copy it again"


@dataclass(frozen=True)
class MetaGraph:
    """One graph of a SavedModel."""

    message: Any
    """wire.MetaGraphDef: tags, TensorFlow version, signatures, assets."""
    has_variables: bool
    graph_def: tuple[Place, ...]
    """Where its GraphDef is; in parts where protobuf would merge them."""
    has_asset_collection: bool
    """Whether it names assets as TensorFlow 1 did, in a collection."""
    init_op: str
    """The operation that TensorFlow Serving runs after it has restored the variables; "" for none."""


def reject_pointer(file: Path) -> None:
    """Raise `PackagingError` if the file is only a Git LFS pointer. Raises OSError."""
    with file.open("rb") as opened:
        if opened.read(24).startswith(b"version https://git-lfs"):
            problem = "is a Git LFS pointer, not the file itself"
            raise PackagingError(file, problem, "run: git lfs pull")


def read_meta_graphs(file: Path, *, variables: bool = True) -> list[MetaGraph]:
    """Return the graphs in a saved_model.pb. Raises `PackagingError`, OSError.

    Without `variables`, the graphs aren't searched for variables, which takes most of the time. Damage in
    the middle of a constant isn't noticed; a file that ends too early always is.
    """
    reject_pointer(file)
    size = file.stat().st_size
    if size == 0:
        raise PackagingError(file, "is empty", _AGAIN)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        # The file begins with its version or with a graph.
        if data[0] not in (_SCHEMA_VERSION << 3, _META_GRAPHS << 3 | BYTES):
            raise PackagingError(file, "is not a SavedModel", "export the SavedModel again")
        try:
            places = []
            for number, kind, start, end in iterate_fields(data, 0, size):
                if number == _META_GRAPHS and kind == BYTES:
                    places.append((start, end))
                elif number != _SCHEMA_VERSION:
                    raise WireError(f"unknown field {number}")
            graphs = [_parse_meta_graph(data, *place, variables=variables) for place in places]
        except (WireError, DecodeError, UnicodeDecodeError) as damage:
            raise PackagingError(file, f"is truncated or damaged ({damage})", _AGAIN) from None
    if not graphs:
        problem = "is not a SavedModel: it contains no graph"
        raise PackagingError(file, problem, "export the SavedModel again")
    return graphs


def _parse_meta_graph(data: mmap.mmap, first: int, last: int, *, variables: bool) -> MetaGraph:
    small, has_variables, places, collection = [], False, [], False
    init_ops: dict[bytes, str] = {}
    for number, kind, start, end in iterate_fields(data, first, last):
        if number in _SMALL and kind == BYTES:
            # Concatenated fields are a message: protobuf merges repeated ones.
            small += [bytes((number << 3 | kind,)), encode_varint(end - start), data[start:end]]
        elif number == _GRAPH_DEF and kind == BYTES:
            places.append((start, end))
            # A frozen graph of a million nodes mostly doesn't even name a variable's operation. A
            # larger graph consists of constants, whose pages aren't read.
            is_large = end - start > _SEARCHED_BYTES
            is_walked = variables and (
                is_large or any(data.find(op, start, end) >= 0 for op in _SEARCHED)
            )
            if is_walked:
                has_variables |= any(op in VARIABLE_OPS for op in _list_ops(data, (start, end)))
        elif number == _COLLECTION and kind == BYTES:
            collection |= data[start : start + 64].find(_ASSETS) >= 0
            if (name := read_first(data, (start, end), _KEY)) in _INIT_COLLECTIONS:
                init_ops[name] = read_first(data, (start, end), *_FIRST_NODE).decode()
    message = wire.MetaGraphDef.FromString(b"".join(small))
    init_op = next(filter(None, map(init_ops.get, _INIT_COLLECTIONS)), "")
    if _INIT_SIGNATURE in message.signature_def:
        init_op = message.signature_def[_INIT_SIGNATURE].outputs[_INIT_SIGNATURE].name
    return MetaGraph(message, has_variables, tuple(places), collection, init_op)


def _list_ops(data: Buffer, graph: Place) -> Iterator[bytes]:
    for path in ((_NODE,), (_LIBRARY, _FUNCTION, _FUNCTION_NODE)):
        for node in find_messages(data, graph, *path):
            yield read_first(data, node, _OP)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The nodes that have the same operation and attributes."""

    op: str
    function: str
    """Where the first of them is; "" for the graph itself."""
    node: str
    """The first of them."""
    attributes: Mapping[str, Attribute]
    """Without those that begin with _, which TensorFlow accepts for any operation."""
    compiled: bool
    """Whether XLA compiles it, which has its own kernels."""
    path: str | None = None
    """The file that it reads or writes, if a constant names it."""


@dataclass(frozen=True, kw_only=True)
class GraphOperations:
    """The part that TensorFlow Serving loads of one SavedModel."""

    producer: int
    """The version of GraphDef that wrote it."""
    min_consumer: int
    bad_consumers: tuple[int, ...]
    has_assets: bool
    operations: tuple[Operation, ...]
    """Each with its first place: in the graph, or otherwise in a function that it calls."""
    restored: tuple[RestoredVariable, ...] | None = ()
    """Variables that are read from the checkpoint; None for a graph that is too large to be followed."""
    vocabularies: tuple[VocabularyTable, ...] | None = ()
    unfilled: tuple[Unfilled, ...] | None = ()
    """What a signature reads and nothing fills; None for a graph that is too large to be followed."""


# Operation -> the input that is a file's name. Operations on the model's own checkpoints (RestoreV2,
# SaveV2, …) aren't listed.
# Source: tensorflow/core/ops/{io,lookup,dataset,experimental_dataset,summary}_ops.cc, read 2026-11-22
FILE_INPUTS: Mapping[str, int] = {
    "ReadFile": 0, "WriteFile": 0, "MatchingFiles": 0, "InitializeTableFromTextFile": 1,
    "InitializeTableFromTextFileV2": 1, "TextLineDataset": 0, "TFRecordDataset": 0,
    "TFRecordDatasetV2": 0, "FixedLengthRecordDataset": 0, "FixedLengthRecordDatasetV2": 0,
    "MatchingFilesDataset": 0, "LoadDataset": 0, "SaveDataset": 1, "CreateSummaryFileWriter": 1,
}  # fmt: skip
